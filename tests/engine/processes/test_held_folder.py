"""A temporary folder lasts as long as its process, also one that is killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from engine.processes.held_folder import make_held_folder
from engine.processes.process import ON_LINUX, PROJECT

CODE = """
from engine.processes.held_folder import make_held_folder
print(make_held_folder("x-")[0], flush=True)
input()
"""


@pytest.mark.usefixtures("processes")
@pytest.mark.skipif(not ON_LINUX, reason="only Linux tells who holds a file")
def test_the_folder_of_another_process_stays_until_that_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", CODE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=PROJECT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        text=True,
    ) as process:
        assert process.stdout is not None
        theirs = Path(process.stdout.readline().strip())
        make_held_folder("x-", "name-")
        assert theirs.is_dir()
        process.kill()
    last, _ = make_held_folder("x-")
    assert list(tmp_path.iterdir()) == [last]
