"""Asks the system what a preflight wants to know: limits, the clock, the disk of the runs."""

from __future__ import annotations

import ctypes
import os
import shutil
import struct
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from engine.files.disk_errors import short_reason
from engine.planning.checks.checkpoints import DiskFacts
from engine.planning.checks.machine import ClockFacts, LimitFacts
from engine.processes.process import ON_LINUX, ON_POSIX

MOST_WRITTEN = 256 * 2**20
_BLOCK = 4 * 2**20
_STATUS_OFFSET, _SIZE_OF_TIMEX, _TIME_ERROR = 40, 256, 5
_UNSYNCHRONISED = 0x40
"""Of adjtimex(2)."""


def limits() -> LimitFacts:
    """Return the limits of this process, which its runs inherit."""
    if not ON_POSIX:
        return LimitFacts()
    import resource  # not on Windows

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    locked, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    return LimitFacts(open_files=soft, most_open_files=hard, locked_memory=locked)


class ClockWatch:
    """Compares the clock with one that nobody can set."""

    def __init__(self) -> None:
        self._begun = time.time() - time.monotonic()

    def facts(self) -> ClockFacts:
        """Return what has happened since this object was made."""
        jump = time.time() - time.monotonic() - self._begun
        return ClockFacts(jump=jump, is_synchronised=_is_synchronised())


def _is_synchronised() -> bool | None:
    """Ask the kernel whether a time service keeps the clock; None: it does not tell."""
    if not ON_LINUX:
        return None
    buffer = ctypes.create_string_buffer(_SIZE_OF_TIMEX)  # all zeros: it changes nothing
    try:
        state = ctypes.CDLL(None).adjtimex(buffer)
    except (OSError, AttributeError):
        return None
    if state < 0:
        return None
    (status,) = struct.unpack_from("i", buffer, _STATUS_OFFSET)
    return state != _TIME_ERROR and not status & _UNSYNCHRONISED


def shared_memory_free() -> int:
    """Return the free bytes of /dev/shm; -1: there is none."""
    try:
        return shutil.disk_usage("/dev/shm").free
    except OSError:
        return -1


def disk(folder: Path, seconds: float, is_cancelled: Callable[[], bool]) -> DiskFacts:
    """Write to the disk of `folder`, which need not exist, for at most about `seconds`.

    The file has no name, so nothing of it stays, however this process ends.
    """
    existing = next(each for each in (folder, *folder.parents) if each.is_dir())
    try:
        usage = shutil.disk_usage(existing)
    except OSError as error:
        return DiskFacts(folder=folder, problem=short_reason(error))
    most = min(MOST_WRITTEN, usage.free // 2)
    block = os.urandom(_BLOCK)  # a file system may compress other bytes to almost nothing
    written, begin = 0, time.monotonic()
    try:
        with tempfile.TemporaryFile(dir=existing, buffering=0) as file:
            while True:
                written += file.write(block[: max(1, min(_BLOCK, most - written))])
                os.fsync(file.fileno())
                taken = time.monotonic() - begin
                if written >= most or taken > seconds or is_cancelled():
                    break
    except OSError as error:
        return DiskFacts(
            folder=folder, free=usage.free, total=usage.total, problem=short_reason(error)
        )
    rate = written / taken if written >= _BLOCK and taken else 0.0
    return DiskFacts(folder=folder, free=usage.free, total=usage.total, bytes_per_second=rate)
