"""The list of all runs; a run is read again only when its files have changed.

Ended runs are also cached in `index.sqlite` in the data folder. A cache that is missing, damaged or
of another version is rebuilt from the run folders.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from engine.facts import run_facts
from engine.files.atomic_file import open_to_append
from engine.runs import device_queue, run_info, run_notes
from engine.runs.best_metrics import BestFigure
from engine.runs.checkpoints import checkpoint_files
from engine.runs.run_info import Origin, RunInfo, UnreadableRun
from engine.runs.run_notes import RunNotes
from engine.runs.run_state import RunState, RunStatus
from engine.runs.store import run_store
from engine.spec import spec_file
from engine.spec.run_spec import RunSpec
from engine.system import paths

FILE_NAME = "index.sqlite"
VERSION = 6
"""Increase it when the meaning of the cached data changes."""

LONGEST_WAIT = 0.5
"""Seconds to wait while another window writes; after that, the cache is not used."""

PER_REFRESH = 50
"""Number of ended runs whose files one refresh checks, in turn, because users may edit them."""

SLOWEST_TICK = 2_000_000_000
"""Nanoseconds within which two changes of a file may have the same timestamp."""

RARITY = 50
"""Of the time, a run that cannot be read takes at most the part 1 / RARITY: reading some of them
takes seconds."""

Stamp = tuple[int, ...]
"""Of a run: when its folder changed, and time and size of each of its files; 0: none, or empty.

The first number is no part of what is compared: SQLite changes the folder for every reader."""

_SCHEMA = "CREATE TABLE IF NOT EXISTS run (id TEXT PRIMARY KEY, stamp BLOB, body BLOB)"
_CHANGED_IN_PLACE = (run_store.FILE_NAME, spec_file.FILE_NAME, run_notes.FILE_NAME)
"""Where only the file tells that it was changed: by SQLite, or a person's editor."""

_FILES = (*_CHANGED_IN_PLACE, f"{run_store.FILE_NAME}-wal", run_facts.FOLDER)
"""The last two change while a supervisor lives, which creates and deletes files beside them."""


class _Record(msgspec.Struct, frozen=True, array_like=True):
    """A RunInfo without id and folder; `_save` writes it."""

    spec: RunSpec
    status: RunStatus
    state: RunState
    reason: str
    notes: RunNotes
    best: dict[str, BestFigure]
    origin: Origin


class _Known(NamedTuple):
    stamp: Stamp
    info: RunInfo


class _Damaged(NamedTuple):
    stamp: Stamp
    run: UnreadableRun
    until: float
    """It is not read again before this time, from `time.monotonic`, unless its files change."""


class RunIndex:
    """Keeps the ended runs in memory. Two threads must not use it at the same time."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._damaged: dict[str, _Damaged] = {}
        self._ids: list[str] = []
        self._active_ids: list[str] | None = None
        """None: not read since all runs were looked at."""

        self._folder_stamp: Stamp | None = None
        self._turn = 0
        self._infos: list[RunInfo] = []
        self.unreadable: list[UnreadableRun] = []
        """The runs that the last call could not read, newest first."""

    def runs(self, patience: float = 0.0) -> list[RunInfo]:
        """Return every readable run, newest first; checks the files of each run.

        Wait up to `patience` seconds for the answer of a supervisor that is silent.
        """
        is_first = self._folder_stamp is None
        if is_first:
            self._known = _load()
        self._folder_stamp = _folder_stamp()  # first: the next refresh finds later changes
        self._ids = paths.run_ids()
        self._active_ids = None
        there = set(self._ids)
        gone = [each for each in (*self._known, *self._damaged) if each not in there]
        for run_id in gone:
            self._known.pop(run_id, None)
            self._damaged.pop(run_id, None)
        if self._update(self._ids, gone, patience) or gone or is_first:
            self._rebuild_lists()
        return self._infos

    def refresh(self) -> list[RunInfo]:
        """Return the same as `runs`, but faster; without a change, return the same list object.

        The folder of the runs or the queue changes when a run starts, ends, or is resumed, deleted
        or restored; then this checks the files of all runs, else of the active and some other runs.
        """
        if (
            self._folder_stamp is None
            or self._folder_stamp != _folder_stamp()
            or _is_recent(self._folder_stamp)
        ):
            return self.runs()
        turn = self._ids[self._turn : self._turn + PER_REFRESH]
        self._turn = self._turn + PER_REFRESH if self._turn + PER_REFRESH < len(self._ids) else 0
        if self._active_ids is None:
            self._active_ids = _active_ids()
        unfinished = [run_id for run_id in self._ids if self._is_unfinished(run_id)]
        if self._update(dict.fromkeys((*unfinished, *self._active_ids, *turn)), ()):
            self._rebuild_lists()
        return self._infos

    def _is_unfinished(self, run_id: str) -> bool:
        """Whether a run is active or not readable yet."""
        known = self._known.get(run_id)
        return not is_settled(known.info) if known else run_id not in self._damaged

    def _update(self, run_ids: Iterable[str], gone: Sequence[str], patience: float = 0.0) -> bool:
        """Read the runs whose files have changed; return whether any run has changed.

        The runs in `gone` are deleted from the cache.
        """
        runs, over, has_changed = paths.runs_folder(), {}, False
        now = time.time_ns()
        for run_id in run_ids:
            before = self._known.get(run_id)
            damaged = self._damaged.get(run_id)
            stamp = _stamp(f"{runs}/{run_id}", before.stamp if before else None, now)
            is_same = before is not None and before.stamp[1:] == stamp[1:]
            if before is not None and is_same and is_settled(before.info):
                if before.stamp != stamp:
                    over[run_id] = self._known[run_id] = before._replace(stamp=stamp)
                continue
            begin = time.monotonic()
            if damaged and damaged.stamp[1:] == stamp[1:] and begin < damaged.until:
                continue
            self._damaged.pop(run_id, None)
            found = run_info.try_get_run(run_id, patience, with_best=not is_same)
            self._known.pop(run_id, None)
            match found:
                case RunInfo():
                    if before and is_same:
                        found = found._replace(best=before.info.best, origin=before.info.origin)
                    else:
                        found = found._replace(origin=_origin(found.folder))
                    self._known[run_id] = _Known(stamp, found)
                    if is_settled(found):
                        over[run_id] = self._known[run_id]
                case UnreadableRun():
                    until = begin + RARITY * (time.monotonic() - begin)
                    self._damaged[run_id] = _Damaged(stamp, found, until)
            earlier = before.info if before else damaged.run if damaged else None
            has_changed = has_changed or found != earlier
        if over or gone:
            _save(over, gone)
        return has_changed

    def _rebuild_lists(self) -> None:
        self._infos = [self._known[each].info for each in self._ids if each in self._known]
        self.unreadable = [self._damaged[each].run for each in self._ids if each in self._damaged]


def is_settled(info: RunInfo) -> bool:
    """Whether the run changes only when its files do."""
    return info.state.is_over and info.is_recorded and not info.has_orphans


def newest_active() -> str | None:
    """Return the id of the newest active run, else of the newest readable run.

    Does not read all runs.
    """
    for run_id in _active_ids():
        run = run_info.try_get_run(run_id)
        if isinstance(run, RunInfo) and not run.state.is_over:
            return run_id
    for run_id in paths.run_ids():
        if isinstance(run_info.try_get_run(run_id), RunInfo):
            return run_id
    return None


def cached_spec(run_id: str) -> RunSpec | None:
    """Return the spec of an ended run from the cache; None if it has none. Changes no file."""
    try:
        return _read_cache().get(run_id)
    except (ValueError, sqlite3.Error):
        return None


def cache_problem() -> str:
    """Return why the cache cannot be read; empty if it can, or if there is none.

    Changes no file.
    """
    try:
        _read_cache()
    except sqlite3.OperationalError:
        return ""  # another process writes it
    except (ValueError, sqlite3.Error) as error:
        return str(error)
    return ""


def rebuild_cache() -> None:
    """Delete the cache and write a new one. Raises OSError."""
    (paths.home() / FILE_NAME).unlink(missing_ok=True)
    RunIndex().runs()


def _read_cache() -> dict[str, RunSpec]:
    file = paths.home() / FILE_NAME
    if not file.is_file():
        return {}
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version != VERSION:
            return {}
        rows = connection.execute("SELECT id, body FROM run").fetchall()
    return {run_id: _decode(body).spec for run_id, body in rows}


def _active_ids() -> list[str]:
    """Return the ids of the runs with a live supervisor, newest first, from the queue."""
    try:
        runs = {ticket.run for ticket in device_queue.read()}
    except OSError:
        return []
    return sorted(filter(paths.is_run, runs), key=int, reverse=True)


def _folder_stamp() -> Stamp:
    """Return a value that changes when a run is created, removed, started or ended; times first."""
    stamp = []
    for path in (paths.runs_folder(), paths.home() / device_queue.FILE_NAME):
        try:
            status = path.stat()
        except OSError:
            stamp.append((0, 0))
            continue
        stamp.append((status.st_mtime_ns, status.st_ino))
    return tuple(number for pair in zip(*stamp, strict=True) for number in pair)


def _is_recent(folder_stamp: Stamp) -> bool:
    """Whether a later change may get the same timestamp: file systems have coarse clocks."""
    return time.time_ns() - max(folder_stamp[:2]) < SLOWEST_TICK


def _origin(folder: Path) -> Origin:
    parent = run_facts.read_parent(folder)
    branch = (parent.run, checkpoint_files.step_of(parent.checkpoint)) if parent else ("", 0)
    numbers = run_facts.attempts(folder)
    attempt = run_facts.read_code(folder, max(numbers)) if numbers else None
    git = attempt.git if attempt else None
    place = (git.commit, git.branch, git.is_dirty) if git else ("", "", False)
    return Origin(*place, attempt.host if attempt else "", *branch)


def _stamp(folder: str, before: Stamp | None, now: int) -> Stamp:
    """Return the stamp of the run in `folder`; `before` is that of an earlier look.

    While nothing was created or deleted in the folder, it looks at fewer files: what was not there
    is not there. Tens of thousands of runs take half of the time so.
    """
    try:
        changed = os.stat(folder).st_mtime_ns  # noqa: PTH116  # four times as fast as a Path
    except OSError:
        changed = 0
    if before and before[0] == changed and changed:
        names = _CHANGED_IN_PLACE if before[5] else _CHANGED_IN_PLACE[:2]
        found = _file_stamps(folder, names)
        return (changed, *found, *before[1 + len(found) :])
    # What is created after this within one tick of the clock does not change the time again.
    changed = 0 if now - changed < SLOWEST_TICK else changed
    return (changed, *_file_stamps(folder, _FILES))


def _file_stamps(folder: str, names: Sequence[str]) -> list[int]:
    stamps = []
    for name in names:
        try:
            status = os.stat(f"{folder}/{name}")  # noqa: PTH116
        except OSError:
            stamps += [0, 0]
            continue
        # A reader may create an empty write-ahead log; the run has not changed.
        stamps += [status.st_mtime_ns, status.st_size] if status.st_size else [0, 0]
    return stamps


def _load() -> dict[str, _Known]:
    known: dict[str, _Known] = {}
    runs = paths.runs_folder()
    try:
        with closing(_open()) as connection:
            for run_id, stamp, body in connection.execute("SELECT id, stamp, body FROM run"):
                kept = _decode(body)
                info = RunInfo(
                    id=run_id,
                    folder=runs / run_id,
                    spec=kept.spec,
                    status=kept.status,
                    state=kept.state,
                    reason=kept.reason,
                    notes=kept.notes,
                    best=kept.best,
                    origin=kept.origin,
                )
                known[run_id] = _Known(_decode_stamp(stamp), info)
    except (ValueError, sqlite3.Error, OSError) as error:
        _drop_if_damaged(error)
        return {}
    return known


def _save(known: dict[str, _Known], gone: Sequence[str]) -> None:
    """Write `known` to the cache and delete `gone` from it; write errors are ignored."""
    rows = []
    for run_id, (stamp, info) in known.items():
        record = (
            *(_chosen(info.spec), _chosen(info.status), info.state, info.reason, info.notes),
            *(dict(info.best), info.origin),
        )
        rows.append((run_id, _encode(stamp), _encode(record)))
    try:
        with closing(_open()) as connection, connection:
            connection.executemany("INSERT OR REPLACE INTO run VALUES (?, ?, ?)", rows)
            connection.executemany("DELETE FROM run WHERE id = ?", [(run_id,) for run_id in gone])
    except (sqlite3.Error, OSError) as error:
        _drop_if_damaged(error)


def _chosen(value: RunSpec | RunStatus) -> dict[str, Any]:
    """Return the fields that differ from their default: a quarter of the bytes of all."""
    defaults, fields = _DEFAULTS[type(value)], value.__struct_fields__
    found = {name: getattr(value, name) for name in fields}
    return {name: each for name, each in found.items() if each != getattr(defaults, name)}


_DEFAULTS: dict[type, RunSpec | RunStatus] = {
    RunSpec: RunSpec(recipe="\0", strategy="\0", devices=("\0",)),  # no run leaves these out
    RunStatus: RunStatus(),
}


def _drop_if_damaged(error: Exception) -> None:
    # OperationalError: another window writes at this moment, or the file cannot be written.
    may_be_intact = isinstance(error, sqlite3.OperationalError)
    if isinstance(error, ValueError | sqlite3.DatabaseError) and not may_be_intact:
        (paths.home() / FILE_NAME).unlink(missing_ok=True)


def _open() -> sqlite3.Connection:
    file = paths.home() / FILE_NAME
    open_to_append(file).close()  # for its owner only
    connection = sqlite3.connect(file, timeout=LONGEST_WAIT)
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


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Record).decode
_decode_stamp = msgspec.msgpack.Decoder(Stamp).decode
