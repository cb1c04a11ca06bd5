"""A process adopts what ended processes below it leave, and tells it from what it has started."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from engine.processes.process import ON_LINUX, PROJECT

pytestmark = [
    pytest.mark.usefixtures("processes"),
    pytest.mark.skipif(not ON_LINUX, reason="of Linux"),
]

BEGIN = """
import os, subprocess, sys, time
from engine.processes import children, process_tree

def left_by_a_child():
    read_end, write_end = os.pipe()
    if not (pid := os.fork()):
        os.setsid()
        if not (left := os.fork()):
            os.execvp("sleep", ["sleep", sys.argv[1]])
        os.write(write_end, str(left).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    return int(os.read(read_end, 20))

children.adopt_orphans()
"""

ENDS = """
own = children.start(["sleep", "1000"], start_new_session=True)
template = children.start(
    [sys.executable, "-c", "import os, time; os.fork() or time.sleep(1000)"],
    start_new_session=True,
)
template.wait()
below = process_tree.children(os.getpid())
[worker] = [pid for pid, found in below if found.session == template.pid]
left = left_by_a_child()
assert process_tree.stat(left).parent == os.getpid()
children.end_adopted(5.0)
assert not process_tree.stat(left).state, "ended and waited for"
assert own.poll() is None
assert process_tree.stat(worker).state == "S", "a worker of another run, whose template was killed"
os.kill(worker, 9)
own.kill()
own.wait()
"""

REAPS = """
reaper = children.Reaper(most=2, seconds=0.0)
left = [left_by_a_child() for _ in range(2)]
while any(process_tree.stat(pid).state != "Z" for pid in left):
    time.sleep(0.01)
reaper.look()
assert all(process_tree.stat(pid).state == "Z" for pid in left), "there are not many"
left.append(left_by_a_child())
while any(process_tree.stat(pid).state != "Z" for pid in left):
    time.sleep(0.01)
reaper.look()
assert not any(process_tree.stat(pid).state for pid in left)
"""


@pytest.mark.parametrize(("code", "seconds"), [(ENDS, "1000"), (REAPS, "0")], ids=["end", "reap"])
def test_adopted_children(tmp_path: Path, code: str, seconds: str) -> None:
    command = [sys.executable, "-c", BEGIN + code, seconds]
    errors = tmp_path / "errors"
    with errors.open("w") as output:  # no pipe, which what is left would hold open
        found = subprocess.run(command, cwd=PROJECT, stderr=output, timeout=60)
    assert found.returncode == 0, errors.read_text()
