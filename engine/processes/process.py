"""Identifies, starts and ends processes of this machine.

All POSIX-specific code is here; each function has a fallback for other systems.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, Protocol

import psutil

from engine.files.atomic_file import open_to_append
from engine.processes import children, process_tree

ON_POSIX = os.name == "posix"
ON_LINUX = process_tree.ON_LINUX
PROJECT = Path(__file__).parents[2]

_EXIT_CODE = 49
"""The place of the exit status in /proc/<pid>/stat, after the name; see proc(5)."""

_PIDFD_GET_INFO = 0xC040FF0B
_PIDFD_INFO = struct.Struct("Q52xi")
_PIDFD_INFO_EXIT = 8
"""See <linux/pidfd.h>: the number of the call, mask and exit status of its answer, the flag."""

_FOLDER_VARIABLES = ("TRAINDECK_HOME", "TRAINDECK_LOG_FOLDER", "TRAINDECK_TEMPLATES")


def start_time(pid: int) -> float:
    """Return the start time of process `pid`; 0 if there is no such process.

    Pid and start time together identify a process. The unit is seconds since a fixed moment of this
    boot, not since the epoch: the time of day jumps when the clock is set.
    """
    if ON_LINUX:
        return process_tree.stat(pid).created
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return 0.0


def is_alive(pid: int, created_at: float) -> bool:
    """Whether the process with `pid` that started at `created_at` still runs.

    A pid alone is not enough, because the system gives it to another process later.
    """
    started = start_time(pid)
    # Linux counts ticks; other systems compute the start from the time of day, which may vary.
    is_same = started == created_at if ON_LINUX else abs(started - created_at) < 0.5
    return bool(started) and is_same and not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    if ON_LINUX:
        return process_tree.stat(pid).state in ("Z", "X", "")
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return True


def is_halted(pid: int) -> bool:
    """Whether a signal or a debugger has halted process `pid`; False if the system does not tell.

    Such a process does nothing until it gets SIGCONT.
    """
    if ON_LINUX:
        return process_tree.stat(pid).state in ("T", "t")
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    except psutil.Error:
        return False


def exit_code_of(pid: int, created_at: float, descriptor: int) -> int | None:
    """Return the exit code, or -n for the signal n, of a process that has ended; None: unknown.

    It need not be a child of this process. `descriptor` is that of `os.pidfd_open`.
    """
    with contextlib.suppress(OSError, ValueError, IndexError):
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
        fields = text.rpartition(")")[2].split()
        status = int(fields[_EXIT_CODE])
        started = process_tree.stat(pid).created
        # A zombie's status stays until its parent waits. 0 may mean that the system does not tell.
        if status and fields[0] == "Z" and started == created_at:
            return os.waitstatus_to_exitcode(status)
    import fcntl  # not on Windows

    info = bytearray(_PIDFD_INFO.pack(_PIDFD_INFO_EXIT, 0))
    with contextlib.suppress(OSError):  # a kernel before 6.15; or its parent has not waited for it
        fcntl.ioctl(descriptor, _PIDFD_GET_INFO, info)
        mask, status = _PIDFD_INFO.unpack(info)
        if mask & _PIDFD_INFO_EXIT:
            return os.waitstatus_to_exitcode(status)
    return None


def start_module(
    module: str,
    *arguments: str,
    log: Path,
    environment: Mapping[str, str] | None = None,
    cwd: Path = PROJECT,
    own_session: bool = False,
    interpreter: str = "",
) -> subprocess.Popen[bytes]:
    """Start `python -m module arguments...` and append its output to `log`.

    `interpreter`: the path of another Python than this one, which finds our modules, and nothing
    else of our environment.

    With `own_session`, the new process outlives this process and its terminal. It always has its
    own process group, so that Ctrl-C in the terminal reaches only this process. Raises OSError.
    """
    with open_to_append(log) as output:
        return children.start(
            # -P: Python must not import a user's file in `cwd` instead of our module.
            [interpreter or sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=module_environment(os.environ if environment is None else environment),
            **_group_arguments(own_session),
        )


def module_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return `environment` for any working directory: our modules come first on the path, and our
    own folders have absolute paths."""
    folders = {
        name: str(absolute_folder(environment[name]))
        for name in _FOLDER_VARIABLES
        if environment.get(name)
    }
    modules = environment.get("PYTHONPATH", "").split(os.pathsep)
    others = [entry for entry in modules if entry not in ("", str(PROJECT))]
    return {**environment, **folders, "PYTHONPATH": os.pathsep.join([str(PROJECT), *others])}


def can_enter(folder: Path) -> bool:
    """Whether a process of this user can have `folder` as its working directory."""
    return os.path.isdir(folder) and os.access(folder, os.X_OK)  # noqa: PTH112  # no error


def absolute_folder(text: str) -> Path:
    """Return the folder that a user names, also `~/name` or one relative to the working directory.

    `..` stays: the folder before it may be a link.
    """
    return Path(text).expanduser().absolute()


def _group_arguments(own_session: bool) -> dict[str, Any]:
    if ON_POSIX:
        return {"start_new_session": True} if own_session else {"process_group": 0}
    flag = "CREATE_NEW_PROCESS_GROUP"  # Windows
    return {"creationflags": int(getattr(subprocess, flag))}


class Process(Protocol):
    """A process that this one follows: its child, or a worker that a template has forked."""

    @property
    def pid(self) -> int: ...

    def wait(self) -> int:
        """Wait until it has ended, and return its exit code, or -n for the signal n."""


def end_group(leader: Process, *, kill: bool) -> None:
    """Send SIGTERM or SIGKILL to a process, which leads its own process group, and to the group.

    The signal reaches the children even if `leader` has ended.
    """
    if ON_POSIX:
        try:
            os.killpg(leader.pid, signal.SIGKILL if kill else signal.SIGTERM)
        except ProcessLookupError:
            return  # all processes of the group have ended
    else:
        os.kill(leader.pid, signal.SIGTERM)  # Windows: it ends at once


def find_module(module: str, argument: str) -> process_tree.Identity | None:
    """Return this user's process `python -m module argument ...`; None if there is none."""
    for process in psutil.process_iter():
        created = start_time(process.pid)  # first: the pid may get another process meanwhile
        try:
            if ON_POSIX and process.uids().real != os.getuid():
                continue
            words = process.cmdline()
        except (psutil.Error, OSError):
            continue
        at = words.index("-m") if "-m" in words else len(words)
        if words[at + 1 : at + 3] == [module, argument] and not _is_zombie(process.pid):
            return process.pid, created
    return None


def ask_to_end(pid: int, created_at: float) -> bool:
    """Send SIGTERM to the process with `pid` that started at `created_at`.

    Return whether that was done: not if it has ended, belongs to another user, or on a system
    without signals.
    """
    if not ON_POSIX or pid == os.getpid():
        return False
    try:
        if not hasattr(os, "pidfd_open"):  # macOS
            if is_alive(pid, created_at):
                os.kill(pid, signal.SIGTERM)
                return True
            return False
        descriptor = os.pidfd_open(pid)  # first: the pid may get another process meanwhile
        try:
            if not is_alive(pid, created_at):
                return False
            signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        finally:
            os.close(descriptor)
    except OSError:
        return False
    return True


END_SIGNALS = [
    signal.Signals[name]
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if name in signal.Signals.__members__  # Windows has no SIGHUP
]
"""The signals with which a terminal and the system ask a process to end."""


ORPHANED = 77
"""Exit code of a worker that lost the connection to its supervisor."""

UNKNOWN_EXIT = -1000
"""The exit code of a process whose end the system does not explain."""


def signal_name(exit_code: int) -> str:
    """Return `SIGKILL` for -9; an empty string if no signal ended the process."""
    if exit_code == UNKNOWN_EXIT:
        return ""
    try:
        return signal.Signals(-exit_code).name if exit_code < 0 else ""
    except ValueError:
        return f"signal {-exit_code}"


_before_leaving: list[Callable[[int], None]] = []


def on_leave(report: Callable[[int], None]) -> None:
    """Call `report(exit_code)` when this process leaves."""
    _before_leaving.append(report)


def leave(exit_code: int) -> NoReturn:
    """End this process at once, from any thread, without the exit handlers of its libraries."""
    for report in _before_leaving:
        report(exit_code)
    os._exit(exit_code)


def write_stacks_when_asked(path: Path) -> None:
    """Append the stacks of all threads to `path` after each `ask_for_stacks` for this process.

    A C signal handler writes them, even while the threads are blocked. Raises OSError.
    """
    number = _stacks_signal()
    if number:
        faulthandler.register(number, file=open_to_append(path), all_threads=True)


def ask_for_stacks(pid: int) -> None:
    """Make `pid` write its stacks. It ends if it has not called `write_stacks_when_asked`."""
    number = _stacks_signal()
    if number:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def descendants(pid: int) -> list[int]:
    """Return the pids of all descendants of `pid`; none if the process is gone."""
    with contextlib.suppress(psutil.Error):
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    return []


def _stacks_signal() -> int:
    """Return a signal that frameworks and recipes do not use; 0 on a system without one."""
    if not ON_POSIX:
        return 0
    realtime = getattr(signal, "SIGRTMIN", None)  # macOS has none of these
    return realtime + 7 if realtime else signal.SIGUSR2


def usable_cores() -> int:
    """Return the cores that this process may use; its processors, if the system tells no cores."""
    usable = usable_processors()
    return min(psutil.cpu_count(logical=False) or usable, usable)


def usable_processors() -> int:
    """Return how many processors (hardware threads) this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)  # Linux only
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def resident_bytes() -> int:
    """Return the resident memory of this process."""
    return int(psutil.Process().memory_info().rss)


def bytes_read() -> int:
    """Return how much this process has read so far, also by mapped files; 0 if nothing tells."""
    try:
        counters = psutil.Process().io_counters()
    except (AttributeError, OSError, psutil.Error):
        return 0
    return int(getattr(counters, "read_chars", 0) + counters.read_bytes)


def resident_metric() -> dict[str, float]:
    """Return the resident memory of this process as a metric.

    Without one if the system does not tell it, such as to a process without free descriptors.
    """
    try:
        return {"memory_resident": float(resident_bytes())}
    except (OSError, psutil.Error):
        return {}


def trim_heap() -> None:
    """Return freed memory of the C heap to the system; do nothing without glibc."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if ON_POSIX else None
    if trim is not None:
        trim(0)


def command_output(arguments: Sequence[str], cwd: Path, timeout: float = 5.0) -> str:
    """Return the stripped output of a short command; empty if it fails or is not installed."""
    try:
        result = subprocess.run(
            list(arguments), cwd=cwd, capture_output=True, text=True, timeout=timeout, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return result.stdout.strip()
