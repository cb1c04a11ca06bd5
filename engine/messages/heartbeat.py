"""The sign of life of a run's supervisor: a file whose time says when its loop last turned."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

FILE_NAME = "heartbeat"
BEAT_SECONDS = 1.0
"""Least time between two signs."""


class Heartbeat:
    """Belongs to the loop that it speaks for, not to a thread: a loop that hangs falls silent."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE_NAME
        self._due = 0.0

    def beat(self) -> None:
        """Give a sign if one is due. On a disk that takes none, the silence shows instead."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + BEAT_SECONDS
        with contextlib.suppress(OSError):
            self._file.touch(mode=0o600)
            seconds = time.time()
            os.utime(self._file, (seconds, seconds))  # this clock, not that of a file server

    def end(self) -> None:
        """There will be no more."""
        with contextlib.suppress(OSError):
            self._file.unlink(missing_ok=True)


def last_beat(folder: Path) -> float:
    """When the supervisor of the run in `folder` gave its last sign (seconds since the epoch); 0
    when it gave none."""
    try:
        return (folder / FILE_NAME).stat().st_mtime
    except OSError:
        return 0.0
