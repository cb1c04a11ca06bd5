"""What confines a process on Linux: its rights, namespaces, control group, limits and priority.

A worker that is started by exec inherits all of this from its supervisor. A forked worker inherits
it from its template, so it compares what cannot be changed and adopts the rest.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil

from engine.processes.process import ON_LINUX

_RIGHTS = (
    *("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"),
    *("NoNewPrivs", "Seccomp", "Seccomp_filters"),
)
"""Lines of /proc/self/status that a process cannot change back."""

_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "time", "user", "uts")
_FIXED_FILES = {"security label": "attr/current", "personality": "personality"}
"""Files of /proc/self with what a program inherits and a process should not change."""

_GET_MEMORY_POLICY = {"x86_64": 239, "aarch64": 236}
"""Number of the system call get_mempolicy(2), which the C library does not offer."""

_CGROUP_ROOT = Path("/sys/fs/cgroup")

_OWN_IGNORED = [
    signal.Signals[name]
    for name in ("SIGPIPE", "SIGXFSZ")
    if name in signal.Signals.__members__  # Windows has neither
]
"""Signals that Python itself ignores."""


class CannotAdopt(Exception):
    """This process cannot get the confinement of another one; the text is a sentence."""


class Confinement(msgspec.Struct, frozen=True):
    """The confinement of one process; see proc(5), namespaces(7) and cgroups(7)."""

    fixed: dict[str, str]
    """What a process cannot change: rights and namespaces, by name."""

    control_groups: dict[str, str]
    """Path by list of controllers; the unified hierarchy has an empty list."""

    limits: dict[int, tuple[int, int]]
    """Soft and hard limit by number of the resource."""

    niceness: int
    io_priority: tuple[int, int]
    scheduling: tuple[int, int]
    """Policy and priority; see sched(7)."""

    umask: int
    oom_score_adjustment: str
    blocked_signals: list[int]
    ignored_signals: list[int]


def own_confinement() -> Confinement:
    """Return the confinement of this process.

    Raises OSError where /proc does not show it, and on other systems than Linux.
    """
    if not ON_LINUX:
        raise OSError("this system has no templates")
    import resource  # not on Windows

    status = _status()
    try:
        io_class, io_level = psutil.Process().ionice()
    except psutil.Error as error:
        raise OSError(f"the priority of input and output is not known: {error}") from error
    resources = {value for name, value in vars(resource).items() if name.startswith("RLIMIT_")}
    return Confinement(
        _fixed(),
        _control_groups(),
        {number: resource.getrlimit(number) for number in sorted(resources)},
        os.getpriority(os.PRIO_PROCESS, 0),
        (int(io_class), int(io_level)),
        (os.sched_getscheduler(0), os.sched_getparam(0).sched_priority),
        int(status["Umask"], 8),
        Path("/proc/self/oom_score_adj").read_text().strip(),
        sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ()))),
        sorted(_signals_in(status["SigIgn"]) - set(_OWN_IGNORED)),
    )


def rights_difference(wanted: Confinement) -> str:
    """Return what this process would have to change for `wanted` and cannot; empty if nothing."""
    own = _fixed()
    names = (name for name in own.keys() | wanted.fixed if own.get(name) != wanted.fixed.get(name))
    return min(names, default="")


def adopt(wanted: Confinement) -> None:
    """Give this process, which has one thread, the confinement `wanted`. Raises CannotAdopt."""
    try:
        own = own_confinement()
    except OSError as error:
        raise CannotAdopt(f"the confinement of this process is not known: {error}") from error
    if name := rights_difference(wanted):
        raise CannotAdopt(f"the run has another {name}")
    _adopt_control_groups(own.control_groups, wanted.control_groups)
    with _reason("the limits of the run (ulimit) differ"):
        _adopt_limits(own, wanted)
    with _reason("the run has a higher priority (nice)"):
        if own.niceness != wanted.niceness:
            os.setpriority(os.PRIO_PROCESS, 0, wanted.niceness)
        if own.io_priority != wanted.io_priority:
            psutil.Process().ionice(*wanted.io_priority)
    with _reason("the run is scheduled in another way (chrt)"):
        if own.scheduling != wanted.scheduling:
            policy, priority = wanted.scheduling
            os.sched_setscheduler(0, policy, os.sched_param(priority))
    with _reason("the run has a lower oom_score_adj"):
        if own.oom_score_adjustment != wanted.oom_score_adjustment:
            Path("/proc/self/oom_score_adj").write_text(wanted.oom_score_adjustment)
    os.umask(wanted.umask)
    for number in {*own.ignored_signals, *wanted.ignored_signals}:
        is_ignored = number in wanted.ignored_signals
        signal.signal(number, signal.SIG_IGN if is_ignored else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, wanted.blocked_signals)


def _fixed() -> dict[str, str]:
    import resource

    status = _status()
    fixed = {name: status[name] for name in _RIGHTS if name in status}
    for name in _NAMESPACES:
        with contextlib.suppress(FileNotFoundError):  # this kernel has no such namespace
            fixed[f"{name} namespace"] = str(Path(f"/proc/self/ns/{name}").readlink())
    for name, file in _FIXED_FILES.items():
        with contextlib.suppress(OSError):  # this kernel has no such thing
            fixed[name] = Path("/proc/self", file).read_text().strip("\0\n")
    if policy := _memory_policy():
        fixed["memory policy (numactl)"] = policy
    root = Path("/").stat()
    fixed["root directory"] = f"{root.st_dev}:{root.st_ino}"
    # Numeric libraries count the processors when they are loaded.
    fixed["set of processors (taskset)"] = " ".join(map(str, sorted(os.sched_getaffinity(0))))
    # The C library reads it once, for the stacks of threads.
    fixed["stack size (ulimit -s)"] = str(resource.getrlimit(resource.RLIMIT_STACK)[0])
    return fixed


def _memory_policy() -> str:
    """Return mode and nodes of this process's policy; empty if this system does not tell."""
    number = _GET_MEMORY_POLICY.get(os.uname().machine)
    mode, nodes = ctypes.c_int(), (ctypes.c_ulong * 16)()
    arguments = (ctypes.byref(mode), nodes, ctypes.c_ulong(8 * ctypes.sizeof(nodes)), None, 0)
    if number is None or ctypes.CDLL(None).syscall(ctypes.c_long(number), *arguments):
        return ""
    return f"{mode.value}:{sum(word << 64 * place for place, word in enumerate(nodes)):x}"


def _status() -> dict[str, str]:
    lines = Path("/proc/self/status").read_text().splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


@contextlib.contextmanager
def _reason(text: str) -> Iterator[None]:
    try:
        yield
    except (OSError, ValueError, psutil.Error) as error:
        raise CannotAdopt(f"{text}, and cannot be set: {error}") from error


def _adopt_limits(own: Confinement, wanted: Confinement) -> None:
    import resource

    for number, limits in wanted.limits.items():
        if own.limits.get(number) != limits:
            resource.setrlimit(number, limits)


def _control_groups() -> dict[str, str]:
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    return {controllers: path for _, controllers, path in (line.split(":", 2) for line in lines)}


def _adopt_control_groups(own: dict[str, str], wanted: dict[str, str]) -> None:
    """Enter the control groups `wanted`: their limits, their accounts and their end are the run's.

    Only a user who may write to the common parent of both groups may move a process.
    """
    for controllers, path in wanted.items():
        if own.get(controllers, path) != path:
            with _reason(f"the run is in the control group {path}"):
                file = _mount(controllers) / path.lstrip("/") / "cgroup.procs"
                file.write_text(f"{os.getpid()}")


def _mount(controllers: str) -> Path:
    """Return the folder of a hierarchy of control groups."""
    name = controllers.removeprefix("name=") or "unified"
    folder = _CGROUP_ROOT / name
    return folder if folder.is_dir() else _CGROUP_ROOT


def _signals_in(mask: str) -> set[int]:
    bits = int(mask, 16)
    return {number for number in signal.valid_signals() if bits >> (number - 1) & 1}
