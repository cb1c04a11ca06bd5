"""A lock that processes hold while they live, so that others can ask whether one of them does."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from engine.processes.process import ON_LINUX

_LOCK = struct.Struct("hhqqi4x")
"""The `struct flock` of fcntl(2): type, origin, start, length and pid."""


def hold(file: Path) -> int:
    """Hold `file` until this process ends. Several processes may hold it. Raises OSError.

    Neither its forked children nor the programs that it starts hold it. Return the descriptor,
    whose end lets it go before. Only on Linux.
    """
    if not ON_LINUX:
        return -1
    import fcntl  # not on Windows

    descriptor = os.open(file, os.O_RDONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_SH)
    except OSError:  # this file system has no locks
        os.close(descriptor)
        raise
    return descriptor


def is_locked(file: Path) -> bool:
    """Return whether a process, perhaps in another container, has locked `file` with a `FileLock`.

    False if there is no such file, or on a system other than Linux.
    """
    if not ON_LINUX:
        return False
    import fcntl

    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # until it is closed
    except BlockingIOError:
        return True
    except OSError:  # this file system has no locks
        return False
    finally:
        os.close(descriptor)
    return False


def is_held(file: Path) -> bool:
    """Return whether another process holds `file`; False if there is no such file."""
    if not ON_LINUX:
        return False
    import fcntl

    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        # Only asked for: two that ask at once must not take each other for a holder.
        question = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        found = _LOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, question))
    except OSError:  # this file system has no locks
        return False
    finally:
        os.close(descriptor)
    return bool(found[0] != fcntl.F_UNLCK)
