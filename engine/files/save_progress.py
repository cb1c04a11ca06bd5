"""Whether a checkpoint that is being written gets on, as each process of its run can see it.

The guardian uses it: only the standard library.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

UNFINISHED = ".tmp"
"""The end of the names of folders that are being written."""

LOOKS = 10
"""How often the progress is looked at, in the time that a save has."""


def mark(folder: Path) -> None:
    """Show that the work on the unfinished `folder` gets on, though no file of it grows."""
    with contextlib.suppress(OSError):  # it has just been completed; or a disk that is full
        os.utime(folder)


def save_progress(checkpoints: Path) -> tuple[int, int]:
    """Return what changes while a folder in `checkpoints` is written: its bytes, and its marks."""
    size = newest = 0
    for folder in checkpoints.glob(f"step-*{UNFINISHED}"):
        with contextlib.suppress(OSError):  # it was just renamed or deleted
            newest = max(newest, folder.stat().st_mtime_ns)
        for place, _, names in os.walk(folder):  # passes over a folder that was just deleted
            for name in names:
                with contextlib.suppress(OSError):
                    size += Path(place, name).lstat().st_size
    return size, newest


class TimeToSave:
    """A limit of time that begins anew whenever a save has got on."""

    def __init__(
        self,
        seconds: float,
        progress: Callable[[], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`progress` returns what changes while the save gets on, such as `save_progress`."""
        self.seconds = seconds
        self._progress = progress
        self._clock = clock
        self._seen = progress()
        self._look_at = clock() + seconds / LOOKS
        self._ends_at = clock() + seconds

    def left(self) -> float:
        """Return the seconds until the end of the limit; it is over when there are none."""
        now = self._clock()
        if now >= self._look_at:
            self._look_at = now + self.seconds / LOOKS
            before, self._seen = self._seen, self._progress()
            if before != self._seen:
                self._ends_at = now + self.seconds
        return self._ends_at - now
