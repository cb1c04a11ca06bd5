"""A file is held while a process lives, and by that process alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.processes import presence
from engine.processes.process import ON_LINUX, PROJECT

pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.skipif(not ON_LINUX, reason="of Linux"),
]

HOLDER = """
import os, sys, time
from pathlib import Path
from engine.processes import presence
presence.hold(Path(sys.argv[1]))
child = os.fork()
if not child:
    time.sleep(1000)
print(child, flush=True)
time.sleep(1000)
"""


def start(file: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLDER, str(file)]
    return subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True)


def test_a_file_is_held_until_the_last_holder_ends_also_if_its_children_live(
    tmp_path: Path,
) -> None:
    file = tmp_path / "lock"
    assert not presence.is_held(file), "there is none"
    holders = [start(file), start(file)]
    children = [int(holder.stdout.readline()) for holder in holders if holder.stdout]
    try:
        for holder in holders:
            assert presence.is_held(file)
            holder.kill()
            holder.wait()
        assert not presence.is_held(file)
        assert file.stat().st_mode & 0o777 == 0o600
    finally:
        for holder, child in zip(holders, children, strict=True):
            subprocess.run(["kill", "-KILL", str(child)], check=True)
            assert holder.stdout is not None
            holder.stdout.close()


def test_two_that_ask_do_not_take_each_other_for_a_holder(tmp_path: Path) -> None:
    file = tmp_path / "lock"
    file.touch()
    ask = (
        "import sys; from pathlib import Path; from engine.processes import presence; "
        "print(any(presence.is_held(Path(sys.argv[1])) for _ in range(20_000)))"
    )
    command = [sys.executable, "-c", ask, str(file)]
    both = [
        subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    assert [process.communicate()[0].strip() for process in both] == ["False", "False"]
