"""The list of all runs, read again only where something has changed.

What is known of the runs that are over is also kept in `index.sqlite` in the data folder. That is a
cache and nothing else: the truth is in the run folders, and a file that is missing, damaged or of
another version is made anew.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.runs import device_queue, run_info, run_notes, store
from engine.runs.best_metrics import BestFigure, best_figures
from engine.runs.run_info import RunInfo, UnreadableRun
from engine.runs.run_notes import RunNotes
from engine.runs.run_state import RunState, RunStatus
from engine.runs.store_reader import RunReader
from engine.spec import spec_file
from engine.spec.run_spec import RunSpec
from engine.system import paths

FILE_NAME = "index.sqlite"
VERSION = 2
"""Goes up when what is kept changes its meaning."""

LONGEST_WAIT = 0.5
"""Seconds that another window may take to write; after that we do without the file."""

IN_TURN = 50
"""Runs that are over and looked at in one glance, though nothing says that they have changed."""

SLOWEST_TICK = 2_000_000_000
"""Nanoseconds within which a file may change twice and show it once."""

Stamp = tuple[int, ...]

_SCHEMA = "CREATE TABLE IF NOT EXISTS run (id TEXT PRIMARY KEY, stamp BLOB, body BLOB)"
_FILES = (store.FILE_NAME, f"{store.FILE_NAME}-wal", spec_file.FILE_NAME, run_notes.FILE_NAME)


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    """A RunInfo without what follows from its id."""

    spec: RunSpec
    status: RunStatus
    state: RunState
    reason: str
    notes: RunNotes
    best: dict[str, BestFigure]


class _Known(NamedTuple):
    stamp: Stamp
    info: RunInfo


class RunIndex:
    """Remembers the runs that are over. May be used on any one thread at a time."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._damaged: dict[str, UnreadableRun] = {}
        self._ids: list[str] = []
        self._queued: list[str] = []
        self._marks: Stamp | None = None
        self._turn = 0
        self._infos: list[RunInfo] = []
        self.unreadable: list[UnreadableRun] = []
        """The runs that the last look could not read, newest first."""

    def runs(self) -> list[RunInfo]:
        """Every run that can be read, newest first; each of them is looked at."""
        is_first = self._marks is None
        if is_first:
            self._known = _load()
        self._marks = _marks()  # first, so that what comes meanwhile is found by the next glance
        self._ids = paths.run_ids()
        self._queued = _queued()
        there = set(self._ids)
        gone = [each for each in (*self._known, *self._damaged) if each not in there]
        for run_id in gone:
            self._known.pop(run_id, None)
            self._damaged.pop(run_id, None)
        if self._look(self._ids, gone) or gone or is_first:
            self._list()
        return self._infos

    def refresh(self) -> list[RunInfo]:
        """The same at next to no cost, and the very same list while nothing has changed.

        Whoever starts, resumes, ends, deletes or restores a run changes the folder of the runs or
        the queue, and then all of them are looked at. Else only those that are active, and, for
        what people change by hand, some of the others in turn.
        """
        if self._marks is None or self._marks != _marks() or _is_young(self._marks):
            return self.runs()
        turn = self._ids[self._turn : self._turn + IN_TURN]
        self._turn = self._turn + IN_TURN if self._turn + IN_TURN < len(self._ids) else 0
        restless = [run_id for run_id in self._ids if self._is_restless(run_id)]
        if self._look(dict.fromkeys((*restless, *self._queued, *turn)), ()):
            self._list()
        return self._infos

    def _is_restless(self, run_id: str) -> bool:
        """Whether a run is active, or there is nothing of it to be read yet."""
        known = self._known.get(run_id)
        return not known.info.state.is_over if known else run_id not in self._damaged

    def _look(self, run_ids: Iterable[str], gone: Sequence[str]) -> bool:
        """Look at some runs, and forget those that are gone; whether there is anything new."""
        runs, over, is_news = paths.runs_folder(), {}, False
        for run_id in run_ids:
            mark = _stamp(f"{runs}/{run_id}")
            before = self._known.get(run_id)
            same = before is not None and before.stamp == mark
            if before is not None and same and before.info.state.is_over:
                continue
            was = before.info if before else self._damaged.get(run_id)
            found = run_info.try_get_run(run_id)
            self._known.pop(run_id, None)
            self._damaged.pop(run_id, None)
            match found:
                case RunInfo():
                    best = before.info.best if before and same else _best(found.folder)
                    found = found._replace(best=best)
                    self._known[run_id] = _Known(mark, found)
                    if found.state.is_over:
                        over[run_id] = self._known[run_id]
                case UnreadableRun():
                    self._damaged[run_id] = found
            is_news = is_news or found != was
        if over or gone:
            _save(over, gone)
        return is_news

    def _list(self) -> None:
        self._infos = [self._known[each].info for each in self._ids if each in self._known]
        self.unreadable = [self._damaged[each] for each in self._ids if each in self._damaged]


def newest_active() -> str | None:
    """Id of the run that a window shows by itself: the newest active one, else the newest that can
    be read; found without a look at all of them."""
    for run_id in _queued():
        run = run_info.try_get_run(run_id)
        if isinstance(run, RunInfo) and not run.state.is_over:
            return run_id
    for run_id in paths.run_ids():
        if isinstance(run_info.try_get_run(run_id), RunInfo):
            return run_id
    return None


def _queued() -> list[str]:
    """Ids of the runs whose supervisors live, newest first: each has its place in the queue."""
    try:
        runs = {ticket.run for ticket in device_queue.read()}
    except OSError:
        return []
    return sorted(filter(paths.is_run, runs), key=int, reverse=True)


def _marks() -> Stamp:
    """Changes whenever a run comes, goes, starts or ends; the times come first."""
    marks = []
    for path in (paths.runs_folder(), paths.home() / device_queue.FILE_NAME):
        try:
            status = path.stat()
        except OSError:
            marks.append((0, 0))
            continue
        marks.append((status.st_mtime_ns, status.st_ino))
    return tuple(number for pair in zip(*marks, strict=True) for number in pair)


def _is_young(marks: Stamp) -> bool:
    """Whether something may have come after `marks` that they do not show: the clock of a file
    system ticks slowly."""
    return time.time_ns() - max(marks[:2]) < SLOWEST_TICK


def _best(folder: Path) -> dict[str, BestFigure]:
    try:
        with RunReader(folder) as reader:
            return best_figures(reader)
    except sqlite3.Error:
        return {}  # no store yet; a damaged one is said by `run_info.get_run`


def _stamp(folder: str) -> Stamp:
    """Changes whenever somebody writes to the run in `folder`."""
    stamp = []
    for name in _FILES:
        try:
            status = os.stat(f"{folder}/{name}")  # noqa: PTH116  # four times as fast as a Path
        except OSError:
            stamp += [0, 0]
            continue
        # A reader makes an empty write-ahead log: that is no news.
        stamp += [status.st_mtime_ns, status.st_size] if status.st_size else [0, 0]
    return tuple(stamp)


def _load() -> dict[str, _Known]:
    """What the file has; nothing where it is of no use."""
    known: dict[str, _Known] = {}
    runs = paths.runs_folder()
    try:
        with closing(_open()) as connection:
            for run_id, stamp, body in connection.execute("SELECT id, stamp, body FROM run"):
                kept = _decode(body)
                info = RunInfo(run_id, runs / run_id, *msgspec.structs.astuple(kept))
                known[run_id] = _Known(_decode_stamp(stamp), info)
    except (ValueError, sqlite3.Error, OSError) as error:
        _drop_if_damaged(error)
        return {}
    return known


def _save(known: dict[str, _Known], gone: Sequence[str]) -> None:
    """Keep `known`, forget `gone`. A file that cannot be written is of no use, and no harm."""
    rows = [
        (run_id, _encode(each.stamp), _encode(_kept(each.info))) for run_id, each in known.items()
    ]
    try:
        with closing(_open()) as connection, connection:
            connection.executemany("INSERT OR REPLACE INTO run VALUES (?, ?, ?)", rows)
            connection.executemany("DELETE FROM run WHERE id = ?", [(run_id,) for run_id in gone])
    except (sqlite3.Error, OSError) as error:
        _drop_if_damaged(error)


def _drop_if_damaged(error: Exception) -> None:
    """Take a damaged file away, so that the next one is written to an empty place."""
    if isinstance(error, ValueError | sqlite3.DatabaseError) and not isinstance(error, _JUST_BUSY):
        (paths.home() / FILE_NAME).unlink(missing_ok=True)


def _open() -> sqlite3.Connection:
    """Raises sqlite3.Error, OSError."""
    connection = sqlite3.connect(paths.home() / FILE_NAME, timeout=LONGEST_WAIT)
    try:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version != VERSION:
            with connection:
                connection.execute("DROP TABLE IF EXISTS run")
                connection.execute(f"PRAGMA user_version = {VERSION}")
        connection.execute(_SCHEMA)
    except BaseException:
        connection.close()
        raise
    return connection


def _kept(info: RunInfo) -> _Kept:
    return _Kept(info.spec, info.status, info.state, info.reason, info.notes, dict(info.best))


_JUST_BUSY = sqlite3.OperationalError
"""Another window writes at this moment, or nobody may write here."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Kept).decode
_decode_stamp = msgspec.msgpack.Decoder(Stamp).decode
