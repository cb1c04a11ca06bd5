"""Processes of this machine: who they are, how they start on their own, how they end.

Everything that is POSIX-only stands here, each piece behind a name with a fallback.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

ON_POSIX = os.name == "posix"
PROJECT = Path(__file__).parent.parent


def created(pid: int) -> float:
    """Start time of a process (seconds since the epoch); 0 where there is none."""
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.Error:
        return 0.0


def is_alive(pid: int, created_at: float) -> bool:
    """Whether the process that had `pid` and started at `created_at` still runs.

    A pid alone is not enough: the system gives it to somebody else one day.
    """
    try:
        process = psutil.Process(pid)
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return bool(abs(process.create_time() - created_at) < 0.5)
    except psutil.Error:
        return False


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
