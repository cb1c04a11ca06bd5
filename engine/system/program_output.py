"""Runs a program for what it prints, within a limited time."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import IO, Any, NamedTuple

from engine.processes import children
from engine.processes.process import end_group
from engine.system.cancelled import Cancelled

MOST_BYTES = 16 * 2**20

_LOOK_SECONDS = 0.1
_END_SECONDS = 0.5
"""Time for a killed program to end: one that hangs in a driver, or on a disk, does not."""


class Output(NamedTuple):
    """What a program has printed."""

    code: int
    """Its exit code, or -n after the signal n; 0 if it was ended because it printed too much."""

    printed: bytes
    said: bytes
    """What it has written to its stderr."""


class TooLate(Exception):
    """A program did not end in time, and was ended."""

    def __init__(self, said: bytes) -> None:
        """`said` is what it had written to its stderr."""
        super().__init__()
        self.said = said


def output_of(
    words: Sequence[str],
    *,
    seconds: float,
    is_cancelled: Callable[[], bool] = lambda: False,
    most: int = MOST_BYTES,
    priority: int = 0,
    **options: Any,
) -> Output:
    """Return what the program `words` prints: a byte more than `most` if it is more.

    `options` are those of `subprocess.Popen`. When this returns, nothing runs any more of what the
    program has started in its session. Raises OSError, TooLate and Cancelled.
    """
    # Not pipes: a program that it has started may hold their ends for longer than it lives.
    with tempfile.TemporaryFile() as printed, tempfile.TemporaryFile() as said:
        process = children.start(
            words,
            **{"stdin": subprocess.DEVNULL} | options,
            stdout=printed,
            stderr=said,
            start_new_session=True,
        )
        end = time.monotonic() + seconds
        try:
            if priority:
                with contextlib.suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, process.pid, priority)
            while (code := _exit_code(process)) is None:
                if is_cancelled():
                    raise Cancelled
                if time.monotonic() > end:
                    raise TooLate(_content(said, most))
                if os.fstat(printed.fileno()).st_size > most:
                    code = 0
                    break
        finally:
            _end(process)
        return Output(code, _content(printed, most), _content(said, most))


def _exit_code(process: subprocess.Popen[bytes]) -> int | None:
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(_LOOK_SECONDS)
    return None


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(OSError):
        end_group(process, kill=True)
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.returncode = -9  # Popen must not warn about a process that still runs


def _content(file: IO[bytes], most: int) -> bytes:
    file.seek(0)
    return file.read(most + 1)
