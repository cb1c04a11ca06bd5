"""Writes the run's store; entries that the disk does not accept wait in memory."""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import tempfile
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from engine.files.disk_errors import short_reason
from engine.files.file_sync import FileSync
from engine.messages.channel import StatusAnswer
from engine.messages.events import CheckpointSaved, Event, Failure, Metrics, Progress
from engine.messages.merged_metrics import MergedMetrics, count_points
from engine.repair.kept_files import keep_files
from engine.runs.run_state import RunStatus, fold
from engine.runs.store.run_store import FILE_NAME, RunStore
from engine.scripts.secrets import redacted, secret_values
from engine.spec.recipe_copy import KeptFile
from engine.supervisor.message_validation import SeriesLimit
from engine.supervisor.store_backups import StoreBackups

_log = logging.getLogger(__name__)

CLOSE_SECONDS = 5.0
"""Time for repeated attempts to write the last entries of a run; each that succeeds renews it."""

RETRY_SECONDS = 1.0
"""Time between two attempts to write the waiting entries."""

MOST_POINTS = 2_000_000
"""Points that may wait, about 50 to 100 MB; if there are more, the oldest are dropped and
counted."""

DRAIN_SECONDS = 0.1
"""Time in which one `commit` writes waiting entries: the supervisor also has other things to do."""

MOST_TOLD = 200
"""Newest events that a `StatusAnswer` holds."""

_BATCH = 500
"""Entries per commit while the waiting entries are written."""

_BATCH_POINTS = 20_000
"""Points after which such a commit has no more entries."""

_encode = msgspec.msgpack.Encoder().encode


class _Record(NamedTuple):
    """An event, and the status of the run after it and after what was merged into it."""

    event: Event | MergedMetrics
    time: float
    status: RunStatus
    seq: int
    """Its number in the store; that of the event before it if it has none there."""


class _Rewind(NamedTuple):
    """See `RunStore.rewind`."""

    step: int
    validates_again: bool


_Entry = _Record | _Rewind
_Told = TypeVar("_Told", bound=msgspec.Struct)


_SENTENCES = ("text", "message", "reason", "details")
"""Fields of events in which people read."""


def _for_people(event: _Told, names: Mapping[str, str], secrets: Collection[str]) -> _Told:
    """Return `event` with `names` in the place of what a spec calls the devices, and without
    `secrets` and what looks like one."""
    changed: dict[str, Any] = {}
    for field in (*_SENTENCES, "log_tail"):
        before = said = getattr(event, field, None)
        if isinstance(said, str):
            for device, name in names.items() if field in _SENTENCES else ():
                said = said.replace(device, name)
            said = redacted(said, secrets)
            if said != before:
                changed[field] = said
    if isinstance(failure := getattr(event, "failure", None), Failure):
        changed["failure"] = _for_people(failure, names, secrets)
    return msgspec.structs.replace(event, **changed) if changed else event


class BufferedStore:
    """Keeps every entry until it is committed. A disk that fails raises no exception.

    A thread syncs what is committed, so a power cut loses less than a second of it.
    """

    def __init__(self, folder: Path, store: RunStore) -> None:
        self._folder = folder
        self._store = store
        self._waiting: deque[_Entry] = deque()
        self._waiting_points = 0
        self._dropped = 0
        self._blocked = False
        self._is_draining = False
        """Whether the disk has accepted some of the waiting entries, and the others will follow."""

        self._retry_at = 0.0
        self.backups = StoreBackups(folder)
        """Asked for one after each checkpoint, and after each rewind, which makes the last one old.
        """

        self._identity: tuple[int, int] | None = None
        self._unreachable = ""
        self._identity = self._find_identity()
        self._last_seq = store.last_seq()
        self._series_limit = SeriesLimit(store.series())
        self._sync = FileSync(store.wal)
        self._sync.written()
        self._when_durable: list[Callable[[], None]] = []
        self.status: RunStatus = store.status
        """The run's newest status, including the waiting entries."""

        self.secrets: list[str] = secret_values(os.environ)
        """What no sentence may hold."""

        self.device_names: dict[str, str] = {}
        """What people call the devices, such as `GPU 0`, by their names in the spec."""

        self._refusal = ""
        """Why the disk does not take the waiting entries."""

    @property
    def write_problem(self) -> str:
        """Why the run folder cannot be written, in a few words; empty if it can."""
        return self._refusal or self._sync.problem or self._unreachable

    @property
    def is_full(self) -> bool:
        """Whether the problem is that the disk is full, so that the user has to make room."""
        return self.write_problem in _FULL

    @property
    def is_behind(self) -> bool:
        """Whether the store did not take the newest entries, so that readers do not see them."""
        return self._blocked

    def answer(self, standstill: float) -> StatusAnswer:
        """Return what is known of the run, from any thread and without the disk.

        `standstill` are the seconds since the main loop's last turn.
        """
        while True:
            try:
                waiting = list(self._waiting)
                break
            except RuntimeError:  # the main thread has just added one
                continue
        events = [
            (each.seq, each.time, each.event)
            for each in waiting
            if isinstance(each, _Record)
            and not isinstance(each.event, MergedMetrics)
            and _is_stored(each.event)
        ]
        return StatusAnswer(
            _encode(self.status),
            self.write_problem if self._blocked else "",
            standstill,
            tuple(events[-MOST_TOLD:]),
        )

    def count(self, rank: int) -> None:
        """Count an event that the worker `rank` has sent; call it before `append`."""
        recorded = self.status.recorded
        changed = recorded | {rank: recorded.get(rank, 0) + 1}
        self.status = msgspec.structs.replace(self.status, recorded=changed)

    def recorded(self) -> dict[int, int]:
        """Return how many events of each rank are on disk; empty if that is not known now.

        Call it after `commit`.
        """
        return {} if self._blocked else self._store.status.recorded

    def append(self, event: Event, when: float | None = None) -> None:
        """Record `event`, which happened now or at `when`, and fold it into the status.

        Points of too many series are left out: see `SeriesLimit`. Its sentences name the devices
        as people do, and hold no secrets.
        """
        now = time.time() if when is None else when
        for admitted in self._series_limit.admit(event):
            self._append(_for_people(admitted, self.device_names, self.secrets), now)

    def _append(self, event: Event, now: float) -> None:
        before = self.status.state
        self.status = fold(self.status, event, now)
        if not isinstance(event, Metrics | Progress):
            _log.debug("event: %s", event)
        if self.status.state is not before:
            _log.info("state: %s -> %s", before, self.status.state)
        self._last_seq += _is_stored(event)
        self._add(_Record(event, now, self.status, self._last_seq))

    def rewind(self, step: int, *, validates_again: bool = False) -> None:
        """Remove every point after `step` from the curves; see `RunStore.rewind`."""
        self._add(_Rewind(step, validates_again))

    def commit(self) -> None:
        """Commit all entries, if the disk accepts them; readers then see them."""
        if not self._blocked:
            try:
                self._store.commit()
                self._committed(len(self._waiting))
            except sqlite3.Error as error:
                self._block(error)
        elif self._is_draining or time.monotonic() >= self._retry_at:
            self._retry_at = time.monotonic() + RETRY_SECONDS
            self._write_waiting()

    def when_durable(self, then: Callable[[], None]) -> None:
        """Commit, and call `then` once no power cut can lose the entries any more.

        It is called from another thread; while the disk does not accept the entries, not at all.
        """
        self._when_durable.append(then)
        self.commit()

    def prepare_for_points(self) -> None:
        """Do in advance what the first points would have to wait for."""
        with contextlib.suppress(sqlite3.Error):  # the first points will meet it again
            self._store.prepare_for_points()

    def keep_files(self) -> None:
        """Keep the files of the run once more: those of this attempt were changed back."""
        if not self._blocked:
            with contextlib.suppress(sqlite3.Error):  # they are also those of an earlier attempt
                keep_files(self._store, self._folder)

    def kept_files(self) -> list[KeptFile]:
        """Return the copies of the run's files, by attempt; none if the disk does not give them."""
        try:
            return self._store.kept_files()
        except sqlite3.Error:
            return []

    def values(self, series: str, last_step: int) -> list[tuple[int, float]]:
        """Return the points of `series` until `last_step`, by step; none if the disk does not give
        them. NaN is left as NaN."""
        self.commit()
        try:
            return self._store.values(series, last_step)
        except sqlite3.Error:
            return []

    def last_seq(self) -> int:
        """Return the number of the newest event: the one that it will have if it still waits."""
        return self._last_seq

    def close(self) -> bool:
        """Write the waiting entries; see CLOSE_SECONDS. Return whether all are durable."""
        deadline = time.monotonic() + CLOSE_SECONDS
        self.commit()
        while self._blocked and not self.is_missing():
            if self._is_draining:
                deadline = time.monotonic() + CLOSE_SECONDS
            elif time.monotonic() < deadline:
                time.sleep(RETRY_SECONDS / 10)
            else:
                break
            self.commit()
        if self._blocked:
            return False
        return self._sync.close(max(0.0, deadline - time.monotonic()))

    def is_missing(self) -> bool:
        """Return whether the store is no longer in its folder: the run was deleted or moved.

        A folder that does not tell, such as one of a file server that does not answer, is a problem
        like that of a disk that cannot be written.
        """
        return self._find_identity() != self._identity

    def pop_dropped_count(self) -> int:
        """Return the number of points that were dropped since the last call."""
        dropped, self._dropped = self._dropped, 0
        return dropped

    def _find_identity(self) -> tuple[int, int] | None:
        """Return device and inode of the store's file; None if there is no such file."""
        self._unreachable = ""
        try:
            found = (self._folder / FILE_NAME).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            self._unreachable = short_reason(error)
            return self._identity
        return found.st_dev, found.st_ino

    def _add(self, entry: _Entry) -> None:
        if self._blocked:
            self._keep(entry)
            return
        self._waiting.append(entry)
        self._waiting_points += _points_in(entry)
        try:
            self._apply(entry)
        except sqlite3.Error as error:
            self._block(error)

    def _apply(self, entry: _Entry) -> None:
        if isinstance(entry, _Rewind):
            self._store.rewind(entry.step, validates_again=entry.validates_again)
            return
        event = entry.event
        if isinstance(event, MergedMetrics):
            event = event.event()
        self._store.write(event, entry.time, entry.status)

    def _keep(self, entry: _Entry) -> None:
        """Let `entry` wait until the disk accepts it; merge it, if it need not stay alone."""
        self._waiting_points += _points_in(entry)
        self._drop_oldest()
        last = self._waiting[-1] if self._waiting else None
        if isinstance(entry, _Record):
            event = entry.event
            is_merged = isinstance(event, Progress)  # the status is all that is stored of it
            if isinstance(last, _Record) and isinstance(event, Metrics):
                is_merged = isinstance(last.event, MergedMetrics) and last.event.add(event)
            if isinstance(last, _Record) and is_merged:
                self._waiting[-1] = last._replace(status=entry.status)
                return
            if isinstance(event, Metrics):
                merged = MergedMetrics()
                merged.add(event)
                entry = entry._replace(event=merged)
        self._waiting.append(entry)

    def _block(self, error: sqlite3.Error) -> None:
        """Keep the entries in memory. SQLite has rolled back all that are not committed."""
        self._blocked, self._is_draining = True, False
        self._refusal = _SHORT_REASONS.get(str(error), "") or _why_no_file(self._folder)
        self._refusal = self._refusal or str(error)
        self._retry_at = 0.0
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_MISUSE) & 0xFF in _PROGRAM_ERRORS:
            raise error

    def _write_waiting(self) -> None:
        deadline = time.monotonic() + DRAIN_SECONDS
        try:
            if not self._is_draining:
                self._store.roll_back()
            self._is_draining = False
            while self._waiting:
                count = points = 0
                for entry in islice(self._waiting, _BATCH):
                    self._apply(entry)
                    count += 1
                    points += _points_in(entry)
                    if points >= _BATCH_POINTS:
                        break
                self._store.commit()
                self._committed(count)
                if time.monotonic() >= deadline:
                    break
        except sqlite3.Error:
            return  # the entries wait for the next attempt
        self._is_draining = self._blocked = bool(self._waiting)
        if not self._blocked:
            self._refusal = ""

    def _committed(self, count: int) -> None:
        """Forget the oldest `count` entries, which are committed now, and have them synced."""
        for _ in range(count):
            entry = self._waiting.popleft()
            self._waiting_points -= _points_in(entry)
            if isinstance(entry, _Rewind) or isinstance(entry.event, CheckpointSaved):
                self.backups.ask()
        callbacks: list[Callable[[], None]] = []
        if not self._waiting:
            callbacks, self._when_durable = self._when_durable, callbacks
        if count or callbacks:
            self._sync.written(callbacks)

    def _drop_oldest(self) -> None:
        while self._waiting_points > MOST_POINTS:
            counts = ((place, _points_in(entry)) for place, entry in enumerate(self._waiting))
            place, count = next((found for found in counts if found[1]), (0, 0))
            if not count:
                return
            del self._waiting[place]
            self._waiting_points -= count
            self._dropped += count


_PROGRAM_ERRORS = (
    sqlite3.SQLITE_ERROR,
    sqlite3.SQLITE_CONSTRAINT,
    sqlite3.SQLITE_MISMATCH,
    sqlite3.SQLITE_MISUSE,
    sqlite3.SQLITE_RANGE,
)
"""Errors of this program; more free space does not solve them."""

_FULL = frozenset(
    {
        *("the disk is full", "no space left on device", "disk quota exceeded"),
    }
)
_SHORT_REASONS = {
    "database or disk is full": "the disk is full",
    "database is locked": "another program has locked the store",
    "attempt to write a readonly database": "it is read-only",
}
"""What SQLite says; of other errors of the disk it only says that there was one."""


def _why_no_file(folder: Path) -> str:
    """Return why no file can be written in `folder`, in a few words; empty if one can."""
    try:
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        return short_reason(error)
    return ""


def _is_stored(event: Event) -> bool:
    """Whether it becomes a row of its own, with a number: see `RunStore.write`."""
    return not isinstance(event, Metrics | Progress)


def _points_in(entry: _Entry) -> int:
    return 0 if isinstance(entry, _Rewind) else count_points(entry.event)
