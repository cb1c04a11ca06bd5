"""A control group ends every process in it, also those without a living parent."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from engine.processes import control_group
from engine.processes.control_group import ControlGroup
from engine.processes.process import PROJECT

ENTERS = """
import os, subprocess, sys
from pathlib import Path
from engine.processes.control_group import ControlGroup
ControlGroup(Path(sys.argv[1])).enter()
options = {"start_new_session": True, "env": {}, "stdout": subprocess.DEVNULL}
print(subprocess.Popen(["/bin/sleep", "1000"], **options).pid)
"""


@pytest.mark.usefixtures("processes")
def test_everything_that_was_started_in_a_group_ends_with_it() -> None:
    group = control_group.create("test")
    if group is None:
        pytest.skip("this user may not make a control group")
    command = [sys.executable, "-c", ENTERS, str(group.folder)]
    started = subprocess.run(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=True)
    left = psutil.Process(int(started.stdout))
    group.end(10.0)
    assert not left.is_running() or left.status() == psutil.STATUS_ZOMBIE
    group.remove()
    assert not group.folder.exists()


@pytest.mark.usefixtures("processes")
def test_the_empty_group_of_a_killed_supervisor_is_removed_by_the_next_one() -> None:
    code = (
        "from engine.processes import control_group as c; "
        "g = c.create('test'); print(g and g.folder)"
    )
    command = [sys.executable, "-c", code]
    made = subprocess.run(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=True)
    group = control_group.create("test")
    if group is None:
        pytest.skip("this user may not make a control group")
    assert group.folder.exists()
    group.remove()
    assert not Path(made.stdout.strip()).exists()


def test_without_a_group_nothing_fails(tmp_path: Path) -> None:
    group = ControlGroup(tmp_path / "missing")
    group.end(0.0)
    group.remove()
    with pytest.raises(OSError, match="No such file"):
        group.enter()
