"""The confinement of a process: read, compared, and adopted by another one."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine.processes import confinement
from engine.processes.confinement import (
    CannotAdopt,
    Confinement,
    adopt,
    own_confinement,
    rights_difference,
)
from engine.processes.process import ON_LINUX
from tests.support.sentences import sentence

pytestmark = pytest.mark.skipif(not ON_LINUX, reason="of Linux")


def changed(**changes: Any) -> Confinement:
    """The confinement of this process, except for `changes`."""
    return msgspec.structs.replace(own_confinement(), **changes)


def in_child(action: Callable[[], object], read: Callable[[], Any] = own_confinement) -> Any:
    """Do `action` in a forked process, and return what `read` returns there; or the reason."""
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            action()
            answer = msgspec.json.encode(read())
        except CannotAdopt as error:
            answer = msgspec.json.encode({"refused": str(error)})
        os.write(writing, answer)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        answer = file.read()
    os.waitpid(pid, 0)
    return json.loads(answer)


def refusal(wanted: Confinement) -> str:
    """Why a child of this process cannot adopt `wanted`."""
    return str(in_child(lambda: adopt(wanted))["refused"])


@pytest.mark.usefixtures("processes")
def test_a_child_adopts_all_that_can_be_changed() -> None:
    own = own_confinement()
    limits = dict(own.limits)
    _, hard = limits[resource.RLIMIT_NOFILE]
    limits[resource.RLIMIT_NOFILE] = (300, hard)
    limits[resource.RLIMIT_CORE] = (0, 0)
    wanted = changed(
        limits=limits,
        niceness=own.niceness + 3,
        io_priority=(2, 6),
        scheduling=(os.SCHED_BATCH, 0),
        umask=0o027,
        oom_score_adjustment="700",
        blocked_signals=[signal.SIGUSR2],
        ignored_signals=[signal.SIGHUP, signal.SIGUSR1],
    )
    assert wanted != own
    adopted = in_child(lambda: adopt(wanted))
    assert adopted == json.loads(msgspec.json.encode(wanted))


@pytest.mark.usefixtures("processes")
def test_what_is_ignored_here_and_not_wanted_is_not_ignored_after() -> None:
    def adopt_while_ignoring() -> None:
        wanted = own_confinement()
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        adopt(wanted)

    assert signal.SIGUSR1 not in in_child(adopt_while_ignoring)["ignored_signals"]


@pytest.mark.usefixtures("processes")
def test_a_started_program_has_the_confinement_of_its_parent() -> None:
    program = (
        "import msgspec, sys; from engine.processes.confinement import own_confinement; "
        "sys.stdout.buffer.write(msgspec.json.encode(own_confinement()))"
    )
    answer = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout
    assert msgspec.json.decode(answer, type=Confinement) == own_confinement()


def test_rights_that_differ_are_named() -> None:
    own = own_confinement()
    assert rights_difference(own) == ""
    fixed = ("Uid", "CapEff", "NoNewPrivs", "net namespace", "root directory")
    for name in (*fixed, "set of processors (taskset)"):
        assert rights_difference(changed(fixed=own.fixed | {name: "another"})) == name
    lacking = {name: value for name, value in own.fixed.items() if name != "Groups"}
    assert rights_difference(changed(fixed=lacking)) == "Groups"


@pytest.mark.usefixtures("processes")
def test_another_right_stack_size_or_memory_policy_is_refused() -> None:
    fixed = own_confinement().fixed
    stack = "stack size (ulimit -s)"
    assert fixed[stack] == str(resource.getrlimit(resource.RLIMIT_STACK)[0])
    assert refusal(changed(fixed=fixed | {stack: "1"})) == f"the run has another {stack}"
    if before := fixed.get("memory policy (numactl)"):
        after = in_child(_interleave_memory)["fixed"]["memory policy (numactl)"]
        assert after != before


def _interleave_memory() -> None:
    """Call set_mempolicy(MPOL_PREFERRED, no node)."""
    number = {"x86_64": 238, "aarch64": 237}[os.uname().machine]
    nodes = ctypes.c_ulong(1)
    assert ctypes.CDLL(None).syscall(number, 3, ctypes.byref(nodes), ctypes.c_ulong(64)) == 0


@pytest.mark.usefixtures("processes")
def test_what_this_process_cannot_get_is_refused_with_the_reason() -> None:
    impossible = own_confinement().limits | {resource.RLIMIT_NOFILE: (2, 1)}
    assert "(ulimit)" in refusal(changed(limits=impossible))
    assert "(chrt)" in refusal(changed(scheduling=(99, 0)))
    assert "oom_score_adj" in refusal(changed(oom_score_adjustment="100000"))
    assert "(nice)" in refusal(changed(io_priority=(9, 99)))


class ControlGroups:
    """A double of /sys/fs/cgroup: folders and files that take every number of a process."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.own = {"": "/user/here"}

    def add(self, path: str, *, may_enter: bool = False) -> Path:
        folder = self.root / path
        folder.mkdir(parents=True, exist_ok=True)
        if may_enter:
            (folder / "cgroup.procs").touch()
        else:
            (folder / "cgroup.procs").mkdir(exist_ok=True)  # nothing can be written to it
        return folder

    def adopt(self, **wanted: str) -> None:
        paths = {name.replace("unified", ""): path for name, path in wanted.items()}
        confinement._adopt_control_groups(self.own, paths)


@pytest.fixture
def groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ControlGroups:
    monkeypatch.setattr(confinement, "_CGROUP_ROOT", tmp_path)
    return ControlGroups(tmp_path)


def test_the_own_control_group_is_left_alone(groups: ControlGroups) -> None:
    groups.adopt(unified="/user/here")
    assert not list(groups.root.iterdir())


def test_a_worker_enters_the_control_group_of_its_run(groups: ControlGroups) -> None:
    folder = groups.add("user/there", may_enter=True)
    groups.adopt(unified="/user/there")
    assert (folder / "cgroup.procs").read_text() == str(os.getpid())


def test_a_control_group_that_cannot_be_entered_is_refused(groups: ControlGroups) -> None:
    """Also without limits: who ends the group of the run must reach its workers."""
    groups.add("user/there")
    with pytest.raises(CannotAdopt, match=sentence("the-control-group-of-that-name").pattern):
        groups.adopt(unified="/user/there")


def test_hierarchies_of_version_1_have_their_own_folders(groups: ControlGroups) -> None:
    groups.own = {"memory": "/a", "name=systemd": "/a", "": "/a"}
    groups.add("memory/b", may_enter=True)
    entered = groups.add("systemd/b", may_enter=True)
    groups.add("unified/b", may_enter=True)
    wanted = {"memory": "/b", "name=systemd": "/b", "": "/b"}
    confinement._adopt_control_groups(groups.own, wanted)
    assert (entered / "cgroup.procs").read_text() == str(os.getpid())


def test_a_hierarchy_that_only_the_run_has_does_not_matter(groups: ControlGroups) -> None:
    groups.adopt(unified="/user/here", cpu="/somewhere")
