"""Syncs a file from a thread, so that no power cut loses what was written and no writer waits."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from engine.files.disk_errors import short_reason

_log = logging.getLogger(__name__)

SYNC_SECONDS = 0.5
"""Longest time from a write to the begin of the sync that covers it, on a disk that is fast enough.
With the commits every 100 ms and the sync itself, a power cut costs less than a second."""

_sync = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


class FileSync:
    """Syncs one file. Its methods are called from one thread; none of them waits but `close`."""

    def __init__(self, file: Path) -> None:
        """`file` must not be one on which this process holds a lock of POSIX: closing any
        descriptor of such a file releases the lock."""
        self._file = file
        self._descriptor = -1
        self._changed = threading.Condition()
        self._is_written = False
        self._is_urgent = False
        self._is_closing = False
        self._callbacks: list[Callable[[], None]] = []
        self._thread = threading.Thread(target=self._run, daemon=True, name="file sync")
        self.problem = ""
        """Why the newest sync failed, in a few words; empty if it did not."""

        self._thread.start()

    def written(self, callbacks: Sequence[Callable[[], None]] = ()) -> None:
        """Note that the file was written. With `callbacks`, sync at once and call them after it.

        They are called from the thread, and after the first sync that succeeds.
        """
        with self._changed:
            self._is_written = True
            self._callbacks += callbacks
            self._is_urgent |= bool(callbacks)
            self._changed.notify_all()

    def close(self, seconds: float) -> bool:
        """Sync what was written; wait for that for at most `seconds`. Return whether it is done."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join(seconds)
        return not (self._thread.is_alive() or self.problem)

    def _run(self) -> None:
        due = 0.0
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_written or self._is_closing)
                self._changed.wait_for(
                    lambda: self._is_urgent or self._is_closing, max(0.0, due - time.monotonic())
                )
                closing, dirty = self._is_closing, self._is_written
                callbacks, self._callbacks = self._callbacks, []
                self._is_written = self._is_urgent = False
            due = time.monotonic() + SYNC_SECONDS
            if dirty and not self._synced():
                with self._changed:  # the next turn tries again
                    self._is_written = True
                    self._callbacks = callbacks + self._callbacks
            else:
                for callback in callbacks:
                    callback()
            if closing:
                if self._descriptor >= 0:
                    os.close(self._descriptor)
                return

    def _synced(self) -> bool:
        begun = time.monotonic()
        try:
            if self._descriptor < 0:
                self._descriptor = os.open(self._file, os.O_RDONLY)
            _sync(self._descriptor)
        except OSError as error:
            self.problem = short_reason(error)
            _log.info("a sync failed: %s", error)
            return False
        self.problem = ""
        if (seconds := time.monotonic() - begun) > SYNC_SECONDS:
            _log.info("a sync took %.1f s", seconds)
        return True
