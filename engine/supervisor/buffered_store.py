"""The run's store on a disk that may fail: what cannot be written waits in memory until it can."""

from __future__ import annotations

import logging
import sqlite3
import time as clock
from collections import deque
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from engine.messages.events import Event, Metrics, Progress
from engine.runs.run_state import RunStatus, fold
from engine.runs.store import FILE_NAME, RunStore
from engine.supervisor.disk_reserve import Reserve

_log = logging.getLogger(__name__)

LAST_SECONDS = 5.0
"""Time to write the end of a run to a disk that takes nothing."""

RETRY_SECONDS = 1.0
"""Time between two attempts to write what waits."""

MOST_POINTS = 2_000_000
"""Points that may wait, about 200 MB; of more, the oldest are dropped and counted."""

_BATCH = 500
"""Events per commit while what waited is written."""


class Rewind(NamedTuple):
    """See `RunStore.rewind`."""

    step: int
    validates_again: bool


class _Entry(NamedTuple):
    what: Event | Rewind
    time: float


class BufferedStore:
    """Keeps every entry until it is committed. Used like `RunStore`; no method raises."""

    def __init__(self, folder: Path, store: RunStore) -> None:
        self._folder = folder
        self._store = store
        self._waiting: deque[_Entry] = deque()
        self._points = 0
        self._dropped = 0
        self._blocked = False
        self._retry = 0.0
        self._reserve = Reserve(folder)
        self._identity = _identity(folder)
        self.status: RunStatus = store.status
        """The newest word on the run, with what waits folded in."""

        self.why_short = self._reserve.make()
        """Why the run folder takes nothing more, in a few words; empty while all is well."""

    def append(self, event: Event, time: float) -> None:
        """Record `event`, which came in at `time` (seconds since the epoch), and fold it."""
        self._add(_Entry(event, time))

    def rewind(self, step: int, *, validates_again: bool = False) -> None:
        """Take every point after `step` out of the curves; see `RunStore.rewind`."""
        self._add(_Entry(Rewind(step, validates_again), clock.time()))

    def commit(self) -> None:
        """Make everything so far visible to readers, if the disk takes it."""
        if self._blocked:
            self._retry_in_time()
        else:
            try:
                self._store.commit()
                self._forget(len(self._waiting))
            except sqlite3.Error as error:
                self._block(error)
                self._write_waiting()  # the reserve has made room
        if self.why_short and not self._blocked and clock.monotonic() >= self._retry:
            self._retry = clock.monotonic() + RETRY_SECONDS
            if not self._reserve.make():
                self.why_short = ""

    def last_seq(self) -> int:
        """Sequence number of the newest event that is on disk."""
        return self._store.last_seq()

    def close(self, seconds: float = LAST_SECONDS) -> bool:
        """Write what waits, trying for so long; whether all of it is on disk."""
        deadline = clock.monotonic() + seconds
        self.commit()
        while self._blocked and clock.monotonic() < deadline and not self.is_gone():
            clock.sleep(RETRY_SECONDS / 10)
            self.commit()
        self._reserve.give_up()
        return not self._blocked

    def is_gone(self) -> bool:
        """Whether the store is no longer in its folder: somebody deleted or moved the run."""
        return _identity(self._folder) != self._identity

    def take_dropped(self) -> int:
        """How many points were dropped since the last call."""
        dropped, self._dropped = self._dropped, 0
        return dropped

    def _add(self, entry: _Entry) -> None:
        self._waiting.append(entry)
        self._points += _points_in(entry)
        if not isinstance(entry.what, Rewind):
            before = self.status.state
            self.status = fold(self.status, entry.what, entry.time)
            if not isinstance(entry.what, Metrics | Progress):
                _log.debug("event: %s", entry.what)
            if self.status.state is not before:
                _log.info("state: %s -> %s", before, self.status.state)
        if self._blocked:
            self._drop_oldest()
            return
        try:
            self._apply(entry)
        except sqlite3.Error as error:
            self._block(error)

    def _apply(self, entry: _Entry) -> None:
        if isinstance(entry.what, Rewind):
            self._store.rewind(entry.what.step, validates_again=entry.what.validates_again)
        else:
            self._store.append(entry.what, entry.time)

    def _block(self, error: sqlite3.Error) -> None:
        """Nothing of what waits is on disk: SQLite undoes a transaction as a whole."""
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE) & 0xFF in _MISTAKES:
            raise error
        self._blocked = True
        self.why_short = _SPOKEN.get(str(error), str(error))
        self._reserve.give_up()
        self._retry = 0.0

    def _retry_in_time(self) -> None:
        if clock.monotonic() >= self._retry:
            self._retry = clock.monotonic() + RETRY_SECONDS
            self._write_waiting()

    def _write_waiting(self) -> None:
        try:
            self._store.roll_back()
            while self._waiting:
                batch = list(islice(self._waiting, _BATCH))
                for entry in batch:
                    self._apply(entry)
                self._store.commit()
                self._forget(len(batch))
        except sqlite3.Error:
            return  # it goes on waiting
        self._blocked = False

    def _forget(self, count: int) -> None:
        for _ in range(count):
            self._points -= _points_in(self._waiting.popleft())

    def _drop_oldest(self) -> None:
        while self._points > MOST_POINTS:
            oldest = next(e for e in self._waiting if isinstance(e.what, Metrics))
            self._waiting.remove(oldest)
            self._points -= _points_in(oldest)
            self._dropped += _points_in(oldest)


_MISTAKES = (
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_MISUSE,
    sqlite3.SQLITE_RANGE,
)
"""Errors of ours, which no free space would heal."""

_SPOKEN = {
    "database or disk is full": "the disk is full",
    "attempt to write a readonly database": "it is read-only",
    "disk I/O error": "the disk reports an error",
}


def _identity(folder: Path) -> tuple[int, int] | None:
    """Which file the store is; None where there is none."""
    try:
        found = (folder / FILE_NAME).stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def _points_in(entry: _Entry) -> int:
    if not isinstance(entry.what, Metrics):
        return 0
    return sum(len(points.steps) for points in entry.what.points)
