"""What confines a process on Linux: its rights, namespaces, control group, limits and priority.

A worker that is started by exec inherits all of this from its supervisor. A forked worker inherits
it from its template, so it compares what cannot be changed and adopts the rest.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil

_RIGHTS = (
    *("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"),
    *("NoNewPrivs", "Seccomp", "Seccomp_filters"),
)
"""Lines of /proc/self/status that a process cannot change back."""

_NAMESPACES = ("ipc", "mnt", "net", "pid", "time", "user", "uts")

_CGROUP_ROOT = Path("/sys/fs/cgroup")
_CGROUP_LIMITS = (
    *("cpu.max", "cpuset.cpus", "io.max", "memory.high", "memory.max", "memory.swap.max"),
    "pids.max",
)
_NO_LIMIT = ("", "max", "max 100000")
_OWN_IGNORED = (signal.SIGPIPE, signal.SIGXFSZ)
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

    affinity: list[int]
    niceness: int
    io_priority: tuple[int, int]
    umask: int
    oom_score_adjustment: str
    blocked_signals: list[int]
    ignored_signals: list[int]


def own_confinement() -> Confinement:
    """Return the confinement of this process. Raises OSError where /proc does not show it."""
    import resource  # not on Windows

    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    fixed = {name: status[name].strip() for name in _RIGHTS if name in status}
    for name in _NAMESPACES:
        with contextlib.suppress(FileNotFoundError):  # this kernel has no such namespace
            fixed[f"{name} namespace"] = str(Path(f"/proc/self/ns/{name}").readlink())
    root = Path("/").stat()
    fixed["root directory"] = f"{root.st_dev}:{root.st_ino}"
    umask = os.umask(0o077)
    os.umask(umask)
    io_class, io_level = psutil.Process().ionice()
    resources = {value for name, value in vars(resource).items() if name.startswith("RLIMIT_")}
    return Confinement(
        _fixed(),
        _control_groups(),
        {number: resource.getrlimit(number) for number in sorted(resources)},
        sorted(os.sched_getaffinity(0)),
        os.getpriority(os.PRIO_PROCESS, 0),
        (int(io_class), int(io_level)),
        umask,
        Path("/proc/self/oom_score_adj").read_text().strip(),
        sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ()))),
        sorted(_signals_in(_status()["SigIgn"]) - set(_OWN_IGNORED)),
    )


def rights_difference(wanted: Confinement) -> str:
    """Return what this process would have to change for `wanted` and cannot; empty if nothing."""
    own = _fixed()
    names = (name for name in own.keys() | wanted.fixed if own.get(name) != wanted.fixed.get(name))
    return min(names, default="")


def adopt(wanted: Confinement) -> None:
    """Give this process, which has one thread, the confinement `wanted`. Raises CannotAdopt."""
    own = own_confinement()
    if name := rights_difference(wanted):
        raise CannotAdopt(f"the template was started with another {name}")
    _adopt_control_groups(own.control_groups, wanted.control_groups)
    with _reason("the limits of the run (ulimit) differ"):
        _adopt_limits(own, wanted)
    with _reason("the run has a higher priority (nice)"):
        if own.niceness != wanted.niceness:
            os.setpriority(os.PRIO_PROCESS, 0, wanted.niceness)
        if own.io_priority != wanted.io_priority:
            psutil.Process().ionice(*wanted.io_priority)
    with _reason("the run may use other processors"):
        os.sched_setaffinity(0, wanted.affinity)
    with _reason("the run has a lower oom_score_adj"):
        if own.oom_score_adjustment != wanted.oom_score_adjustment:
            Path("/proc/self/oom_score_adj").write_text(wanted.oom_score_adjustment)
    os.umask(wanted.umask)
    for number in {*own.ignored_signals, *wanted.ignored_signals}:
        is_ignored = number in wanted.ignored_signals
        signal.signal(number, signal.SIG_IGN if is_ignored else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, wanted.blocked_signals)


def _fixed() -> dict[str, str]:
    status = _status()
    fixed = {name: status[name] for name in _RIGHTS if name in status}
    for name in _NAMESPACES:
        with contextlib.suppress(FileNotFoundError):  # this kernel has no such namespace
            fixed[f"{name} namespace"] = str(Path(f"/proc/self/ns/{name}").readlink())
    root = Path("/").stat()
    fixed["root directory"] = f"{root.st_dev}:{root.st_ino}"
    return fixed


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
    """Enter the control group `wanted`, or accept another one if neither of them has limits."""
    for controllers, path in wanted.items():
        here = own.get(controllers, "")
        if here == path:
            continue
        if controllers:
            raise CannotAdopt(f"the run is in another control group ({controllers}: {path})")
        try:
            (_CGROUP_ROOT / path.lstrip("/") / "cgroup.procs").write_text(f"{os.getpid()}")
        except OSError:  # only the common owner of both groups may do it
            common = os.path.commonpath([here, path])
            if _has_limits(here, common) or _has_limits(path, common):
                raise CannotAdopt(
                    f"the run is in the control group {path}, which has limits of its own"
                ) from None


def _has_limits(path: str, above: str) -> bool:
    """Whether the control group `path`, or one between it and `above`, limits its processes."""
    group = path
    while group != above:
        for name in _CGROUP_LIMITS:
            with contextlib.suppress(OSError):
                limit = (_CGROUP_ROOT / group.lstrip("/") / name).read_text().strip()
                if limit not in _NO_LIMIT:
                    return True
        group = os.path.dirname(group)  # noqa: PTH120  # a path of the kernel, as text
    return False


def _signals_in(mask: str) -> set[int]:
    bits = int(mask, 16)
    return {number for number in range(1, 65) if bits >> (number - 1) & 1}
