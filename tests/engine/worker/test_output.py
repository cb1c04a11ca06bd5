"""What a worker prints when its log's disk is full."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("processes")

PROGRAM = """
import sys
from engine.worker import output
output.survive_full_disk()
print("out", "\\udcff")
print("err", file=sys.stderr)
sys.stdout.write("more")
sys.exit(3)
"""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is full")
def test_a_full_disk_loses_lines_and_raises_nothing() -> None:
    with Path("/dev/full").open("wb") as full:
        code = subprocess.run(
            [sys.executable, "-c", PROGRAM], stdout=full, stderr=full, check=False
        ).returncode
    assert code == 3


def test_otherwise_every_line_is_there_at_once() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=False)
    assert (done.stdout, done.stderr) == (b"out \\udcff\nmore", b"err\n")
