"""Processes of this machine: who they are, how they start on their own, how they end.

Everything that is POSIX-only stands here, each piece behind a name with a fallback.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import os
import signal
import subprocess
import sys
import zlib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import psutil

ON_POSIX = os.name == "posix"
ON_LINUX = sys.platform == "linux"
PROJECT = Path(__file__).parents[2]


def created(pid: int) -> float:
    """When a process started, for telling it from others that had its pid; 0 where there is none.

    Seconds since a moment that only a restart of the machine changes: not the time of day, which
    jumps when a clock is set, as it is when a machine wakes up.
    """
    if ON_LINUX:
        _, started = _linux_stat(pid)
        return started and started + _linux_boot()
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return 0.0


def is_alive(pid: int, created_at: float) -> bool:
    """Whether the process that had `pid` and started at `created_at` still runs.

    A pid alone is not enough: the system gives it to somebody else one day.
    """
    started = created(pid)
    # Linux counts ticks; elsewhere the start is worked out from a time of day, and may vary.
    is_same = started == created_at if ON_LINUX else abs(started - created_at) < 0.5
    return bool(started) and is_same and not _is_zombie(pid)


def _is_zombie(pid: int) -> bool:
    if ON_LINUX:
        return _linux_stat(pid)[0] in ("Z", "X", "")
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return True


def _linux_stat(pid: int) -> tuple[str, float]:
    """State of a process, and its start in seconds since the boot; ("", 0.0) where there is none.

    psutil says the same, but counts from a time of day, and asks for ten times as long.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return "", 0.0
    fields = text.rpartition(")")[2].split()  # its name, in brackets, may hold anything
    return fields[0], int(fields[19]) / os.sysconf("SC_CLK_TCK")


@cache
def _linux_boot() -> float:
    """A number for this boot of the machine, so large that no start is close to one of another."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_bytes()
    except OSError:
        return 0.0
    return zlib.crc32(boot) % 10_000 * 1e9


def start_module(
    module: str,
    *arguments: str,
    log: Path,
    environment: Mapping[str, str] | None = None,
    cwd: Path = PROJECT,
    own_session: bool = False,
) -> subprocess.Popen[bytes]:
    """Start `python -m module arguments...` with its output appended to `log`.

    With `own_session` it outlives this process and its terminal. Without, it still leads a process
    group of its own, so that a Ctrl-C in the terminal is ours to handle. Raises OSError.
    """
    with log.open("ab") as output:
        return subprocess.Popen(
            # -P: a file of the user's in `cwd` must not be imported in place of one of ours.
            [sys.executable, "-P", "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=cwd,
            env=_with_our_modules(environment if environment is not None else os.environ),
            **_group_arguments(own_session),
        )


def _with_our_modules(environment: Mapping[str, str]) -> dict[str, str]:
    """`environment`, in which our modules are found first, from any working directory."""
    paths = filter(None, [str(PROJECT), environment.get("PYTHONPATH", "")])
    return dict(environment) | {"PYTHONPATH": os.pathsep.join(paths)}


def _group_arguments(own_session: bool) -> dict[str, Any]:
    if ON_POSIX:
        return {"start_new_session": True} if own_session else {"process_group": 0}
    flag = "CREATE_NEW_PROCESS_GROUP"  # Windows
    return {"creationflags": int(getattr(subprocess, flag))}


def end_group(leader: subprocess.Popen[bytes], *, kill: bool) -> None:
    """End a process that `start_module` started, and all that it started: ask with SIGTERM or kill.

    Also right after the leader is gone, while its children are not.
    """
    if ON_POSIX:
        try:
            os.killpg(leader.pid, signal.SIGKILL if kill else signal.SIGTERM)
        except ProcessLookupError:
            return  # nobody is left in the group
    elif kill:
        leader.kill()
    else:
        leader.terminate()


def signal_name(exit_code: int) -> str:
    """`SIGKILL` for -9; empty for an exit code that names no signal."""
    try:
        return signal.Signals(-exit_code).name if exit_code < 0 else ""
    except ValueError:
        return f"signal {-exit_code}"


def write_stacks_when_asked(path: Path) -> None:
    """From now on `ask_for_stacks` has this process append to `path` what its threads are doing.

    That works whatever they wait for, as the interpreter has no part in it. Raises OSError.
    """
    number = _stacks_signal()
    if number:
        faulthandler.register(number, file=path.open("ab"), all_threads=True)


def ask_for_stacks(pid: int) -> None:
    """Ask a process of ours that has called `write_stacks_when_asked`; elsewhere this ends it."""
    number = _stacks_signal()
    if number:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def descendants(pid: int) -> list[int]:
    """The processes that a process has started, and those that they have; none if it is gone."""
    with contextlib.suppress(psutil.Error):
        return [child.pid for child in psutil.Process(pid).children(recursive=True)]
    return []


def _stacks_signal() -> int:
    """A signal that frameworks and recipes have no use for; 0 where there is none."""
    if not ON_POSIX:
        return 0
    realtime = getattr(signal, "SIGRTMIN", None)  # macOS has none of these
    return realtime + 7 if realtime else signal.SIGUSR2


def resident_bytes() -> int:
    """Memory of this process that is in RAM."""
    return int(psutil.Process().memory_info().rss)


def trim_heap() -> None:
    """Give freed memory of the C heap back to the system, where the C library knows how (glibc)."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if ON_POSIX else None
    if trim is not None:
        trim(0)


def run_and_read(arguments: Sequence[str], cwd: Path, timeout: float = 5.0) -> str:
    """What a short command prints, stripped; empty when it fails or is not installed."""
    try:
        result = subprocess.run(
            list(arguments), cwd=cwd, capture_output=True, text=True, timeout=timeout, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return result.stdout.strip()
