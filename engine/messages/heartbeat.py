"""The sign of life of a supervisor: a file whose modification time is the last turn of its loop."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path

from engine.files.atomic_file import open_to_append

FILE_NAME = "heartbeat"
BEAT_SECONDS = 1.0
"""Least time between two beats."""


class Heartbeat:
    """Called by the main loop, not by a thread, so that the beats stop when the loop hangs.

    They stop too while the store does not take what happens: then readers ask the supervisor.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE_NAME
        self._due = 0.0

    def beat(self) -> None:
        """Touch the file if that is due. Errors of the disk are ignored: the file only gets old."""
        now = time.monotonic()
        if now < self._due:
            return
        self._due = now + BEAT_SECONDS
        with contextlib.suppress(OSError):
            open_to_append(self._file).close()
            seconds = time.time()
            os.utime(self._file, (seconds, seconds))  # this machine's clock, not a file server's

    def end(self) -> None:
        """Delete the file."""
        with contextlib.suppress(OSError):
            self._file.unlink(missing_ok=True)


def last_beat(folder: Path) -> float:
    """Return the time of the last beat (seconds since the epoch); 0 if there is no file."""
    try:
        return (folder / FILE_NAME).stat().st_mtime
    except OSError:
        return 0.0
