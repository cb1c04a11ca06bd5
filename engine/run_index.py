"""The list of all runs, read again only where something may have changed.

What is known of the runs that are over is also kept in `index.sqlite` in the data folder. That is a
cache and nothing else: the truth is in the run folders, and a file that is missing, damaged or of
another version is made anew.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine import paths, run_info, run_notes, spec_file, store
from engine.best_figures import BestFigure, best_figures
from engine.run_info import RunInfo, UnreadableRun
from engine.run_notes import RunNotes
from engine.run_state import RunState, RunStatus
from engine.spec import RunSpec
from engine.store_reader import RunReader

FILE_NAME = "index.sqlite"
VERSION = 1
"""Goes up when what is kept changes its meaning."""

LONGEST_WAIT = 0.5
"""Seconds that another window may take to write; after that we do without the file."""

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
    """Remembers the runs that are over, so that a thousand old runs cost a few thousand `stat`s."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] | None = None
        self.unreadable: list[UnreadableRun] = []
        """The runs that the last look could not read, newest first."""

    def runs(self) -> list[RunInfo]:
        """Every run that can be read, newest first. May be called on any one thread at a time."""
        known = self._known if self._known is not None else _load()
        now: dict[str, _Known] = {}
        new: list[str] = []
        unreadable: list[UnreadableRun] = []
        runs = paths.runs_folder()
        for run_id in paths.run_ids():
            mark = _stamp(f"{runs}/{run_id}")
            before = known.get(run_id)
            if before is not None and before.stamp == mark and before.info.state.is_over:
                now[run_id] = before
                continue
            match run_info.look_anyway(run_id):
                case RunInfo() as info:
                    now[run_id] = _Known(mark, info._replace(best=_best(info.folder)))
                    if info.state.is_over:
                        new.append(run_id)
                case UnreadableRun() as run:
                    unreadable.append(run)
        gone = [run_id for run_id in known if run_id not in now]
        self._known, self.unreadable = now, unreadable
        if new or gone:
            _save({run_id: now[run_id] for run_id in new}, gone)
        return [each.info for each in now.values()]


def _best(folder: Path) -> dict[str, BestFigure]:
    try:
        with RunReader(folder) as reader:
            return best_figures(reader)
    except sqlite3.Error:
        return {}  # no store yet; a damaged one is said by `run_info.look`


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
    except (msgspec.DecodeError, sqlite3.Error, OSError) as error:
        _drop_if_damaged(error)
        return {}
    return known


def _save(known: dict[str, _Known], gone: list[str]) -> None:
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
    if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, _JUST_BUSY):
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
