"""Builds the store of a run anew: from what can be read of a damaged one, or from checkpoints."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from engine.messages.events import (
    AttemptStarted,
    CheckpointSaved,
    Event,
    Notice,
    RunEnded,
    TrainingStarted,
)
from engine.repair.report import free_name
from engine.repair.store_check import WAL, folded, is_damage, open_store
from engine.repair.stored_blocks import rebuild_blocks
from engine.runs import checkpoint_files
from engine.runs.run_state import RunStatus
from engine.runs.store import FILE_NAME, FORMAT, RunStore, decode_event, encode_status
from engine.spec import spec_file
from engine.spec.spec_file import UnreadableSpec, read_spec
from engine.system.atomic_file import sync_to_disk
from engine.system.format_version import FormatVersion

MOST_FAILURES = 20_000
"""Failed reads after which the rest of a damaged table is given up: two for each lost row."""

_LARGEST_KEY = 2**40
"""Above every number of an event or a point, where the largest one cannot be read."""

_TEMPORARY = ".fsck-"
_MOST_SERIES = 100_000

Row = tuple[object, ...]


def rebuild_store(folder: Path, why: str) -> None:
    """Replace the store of the run in `folder` by a new one with all that can be read.

    The old one is kept as `run.sqlite.damaged-<n>`. `why` is a clause for an event of the run. If
    this raises, nothing has changed. Raises sqlite3.Error, OSError.
    """
    new = Path(tempfile.mkdtemp(prefix=_TEMPORARY, suffix=".tmp", dir=folder))
    try:
        with closing(RunStore(new)):
            pass  # creates the tables
        with closing(sqlite3.connect(new / FILE_NAME, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            events, points = _copy_readable(folder, connection)
            if not events:
                attempt = _known_status(connection).attempt
                _write_events(connection, _events_of_checkpoints(folder, attempt))
            if not points:
                points = _write_metrics_of_checkpoints(folder, connection)
            _finish(folder, connection, f"{why}. It was rebuilt by `fsck`", events, points)
            connection.execute("COMMIT")
        sync_to_disk(new / FILE_NAME)
        _replace_store(folder, new / FILE_NAME)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def leftovers(folder: Path) -> list[Path]:
    """Return the folders of repairs that were killed."""
    return sorted(folder.glob(f"{_TEMPORARY}*.tmp"))


class DamagedTable:
    """Reads what can be read of one table of a damaged store."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._failures = 0

    def rows(self, query: str, parameters: Sequence[object], end: int) -> Iterator[Row]:
        """Yield the rows that can be read, in the order of their key.

        The first column of `query` is the key, from 0 to below `end`; the last two parameters of
        `query` limit it. Raises sqlite3.Error if the disk or another process is the cause.
        """
        ranges = [(0, end)]
        while ranges and self._failures < MOST_FAILURES:
            begin, end = ranges.pop()
            try:
                for row in self._connection.execute(query, (*parameters, begin, end)):
                    if isinstance(row[0], int) and row[0] >= begin:
                        begin = row[0] + 1
                        yield row
            except sqlite3.Error as error:
                if not is_damage(error):
                    raise
                self._failures += 1
                if end - begin > 1:  # a damaged page lies in here: look before and behind it
                    middle = (begin + end) // 2
                    ranges += [(middle, end), (begin, middle)]


def _copy_readable(folder: Path, new: sqlite3.Connection) -> tuple[int, int]:
    """Copy what can be read of the old store; return the numbers of events and points."""
    if not (folder / FILE_NAME).is_file():
        return 0, 0
    with contextlib.ExitStack() as stack:
        try:
            old = stack.enter_context(open_store(folder))
            (number,) = old.execute("PRAGMA user_version").fetchone()
        except sqlite3.Error as error:
            if not is_damage(error):
                raise
            return 0, 0
        version = max(FORMAT, FormatVersion.from_number(number))
        new.execute(f"PRAGMA user_version = {version.number}")
        events = _copy_events(old, new, version)
        _copy_files(old, new)
        points = _copy_points(old, new)
        _copy_status(old, new)
    return events, points


def _copy_events(old: sqlite3.Connection, new: sqlite3.Connection, version: FormatVersion) -> int:
    copied = 0
    query = "SELECT seq, time, body FROM event WHERE seq >= ? AND seq < ? ORDER BY seq"
    for seq, time_, body in DamagedTable(old).rows(query, (), _end(old, "event", "seq")):
        try:
            decode_event(body, version)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            continue
        if _is_number(time_):
            new.execute("INSERT INTO event (seq, time, body) VALUES (?, ?, ?)", (seq, time_, body))
            copied += 1
    return copied


def _copy_files(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    with contextlib.suppress(sqlite3.Error):  # a store of an old format has no such table
        for row in old.execute("SELECT attempt, name, body FROM file"):
            if [type(value) for value in row] == [int, str, bytes]:
                new.execute(
                    "INSERT OR IGNORE INTO file (attempt, name, body) VALUES (?, ?, ?)", row
                )


def _copy_points(old: sqlite3.Connection, new: sqlite3.Connection) -> int:
    """Copy the points of all series; those after a gap move up."""
    names: dict[int, str] = {}
    query = "SELECT id, name FROM series WHERE id >= ? AND id < ? ORDER BY id"
    for id, name in DamagedTable(old).rows(query, (), _end(old, "series", "id")):
        if isinstance(id, int) and isinstance(name, str):
            names[id] = name
    used: set[str] = set()
    table = DamagedTable(old)
    total = 0
    for id in _series_with_points(old, names):
        query = "SELECT i, step, time, value FROM point WHERE series = ? AND i >= ? AND i < ?"
        rows = table.rows(f"{query} ORDER BY i", (id,), _end(old, "point", "i", id))
        good = (row for row in rows if _is_point(row))
        count = 0
        for count, (_, step, at, value) in enumerate(good, 1):
            new.execute(
                "INSERT INTO point (series, i, step, time, value) VALUES (?, ?, ?, ?, ?)",
                (id, count - 1, step, at, value),
            )
        name = names.get(id, "")
        if not name or name in used:
            name = f"recovered/{id}"
        used.add(name)
        new.execute("INSERT INTO series (id, name, count) VALUES (?, ?, ?)", (id, name, count))
        rebuild_blocks(new, id)
        total += count
    return total


def _series_with_points(old: sqlite3.Connection, names: dict[int, str]) -> list[int]:
    """Return the ids of all series, also of those whose names are lost."""
    found = set(names)
    id = -1
    with contextlib.suppress(sqlite3.Error):
        while len(found) < _MOST_SERIES:
            row = old.execute("SELECT min(series) FROM point WHERE series > ?", (id,)).fetchone()
            if not isinstance(row[0], int):
                break
            id = row[0]
            found.add(id)
    return sorted(found)


def _copy_status(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    with contextlib.suppress(sqlite3.Error, TypeError, ValueError):
        (body,) = old.execute("SELECT body FROM status").fetchone()
        msgspec.msgpack.decode(body, type=RunStatus)
        _set_status(new, body)


def _finish(folder: Path, new: sqlite3.Connection, why: str, events: int, points: int) -> None:
    """Write the status that the events say, and an event about the repair."""
    known = _known_status(new)
    if known.attempt > folded(new, None).attempt:  # the event was lost, here and below
        started = AttemptStarted(known.attempt, known.supervisor_pid, known.supervisor_created)
        _write_events(new, [(started, known.attempt_started)])
    if known.state.is_over and folded(new, None).state is not known.state:
        _write_events(new, [(RunEnded(known.state, known.reason), known.updated)])
    text = f"The store was damaged: {why}. {events} events and {points} points could be read."
    _write_events(new, [(Notice(text), time.time())])
    _set_status(new, encode_status(folded(new, known if known.attempt else None)))


def _known_status(new: sqlite3.Connection) -> RunStatus:
    (body,) = new.execute("SELECT body FROM status").fetchone()
    return msgspec.msgpack.decode(body, type=RunStatus)


def _set_status(new: sqlite3.Connection, body: bytes) -> None:
    new.execute("UPDATE status SET body = ?, generation = generation + 1", (body,))


def _write_events(new: sqlite3.Connection, events: Sequence[tuple[Event, float]]) -> None:
    new.executemany(
        "INSERT INTO event (time, body) VALUES (?, ?)",
        [(at, msgspec.msgpack.encode(event)) for event, at in events],
    )


def _events_of_checkpoints(folder: Path, attempt: int) -> list[tuple[Event, float]]:
    """Return the events of a stopped run that its settings and checkpoints still tell."""
    saved = checkpoint_files.checkpoints(folder)
    begin = saved[0].manifest.saved if saved else time.time()
    attempt = max([1, attempt, *spec_file.older_specs(folder)])
    events: list[tuple[Event, float]] = [(AttemptStarted(attempt, 0, 0.0), begin)]
    if not saved:
        return [*events, (RunEnded("failed", "Its store was lost."), begin)]
    last = saved[-1].manifest
    epochs, position = _epochs(folder), last.position
    per_epoch = (position.step - position.batch) // position.epoch if position.epoch else 0
    events.append(
        (
            TrainingStarted(
                0,
                per_epoch,
                epochs,
                last.replicas,
                last.parameters,
                total_steps=position.total_steps(per_epoch, epochs) if per_epoch else 0,
            ),
            begin,
        )
    )
    for info in saved:
        at, size = info.manifest.position, info.manifest.bytes
        path = f"{checkpoint_files.FOLDER}/{info.folder.name}"
        events.append((CheckpointSaved(path, at.step, at.epoch, size, 0.0), info.manifest.saved))
    is_done = 0 < epochs <= position.epoch
    reason = "Its store was lost; this is what its checkpoints tell."
    events.append((RunEnded("finished" if is_done else "stopped", reason), last.saved))
    return events


def _write_metrics_of_checkpoints(folder: Path, new: sqlite3.Connection) -> int:
    """Write the results of validations that the manifests hold; return their number."""
    points: dict[str, dict[int, tuple[float, float]]] = {}
    for info in checkpoint_files.checkpoints(folder):
        position = info.manifest.position
        for name, value in info.manifest.metrics.items():
            step = position.step - position.batch  # the end of the last epoch
            points.setdefault(name, {})[step] = (info.manifest.saved, value)
    for name, values in points.items():
        (id,) = new.execute(
            "INSERT INTO series (name, count) VALUES (?, ?) "
            "ON CONFLICT (name) DO UPDATE SET count = excluded.count RETURNING id",
            (name, len(values)),
        ).fetchone()
        new.executemany(
            "INSERT INTO point (series, i, step, time, value) VALUES (?, ?, ?, ?, ?)",
            [(id, i, step, *values[step]) for i, step in enumerate(sorted(values))],
        )
        rebuild_blocks(new, id)
    return sum(map(len, points.values()))


def _epochs(folder: Path) -> int:
    try:
        return read_spec(folder).epochs
    except UnreadableSpec:
        return 0


def _end(old: sqlite3.Connection, table: str, key: str, series: int | None = None) -> int:
    """Return a number above the largest key of a table."""
    condition, parameters = ("", ()) if series is None else (" WHERE series = ?", (series,))
    try:
        (last,) = old.execute(f"SELECT max({key}) FROM {table}{condition}", parameters).fetchone()
    except sqlite3.Error:
        return _LARGEST_KEY
    return last + 1 if isinstance(last, int) else _LARGEST_KEY if last is not None else 0


def _is_point(row: Row) -> bool:
    _, step, at, value = row
    return isinstance(step, int) and _is_number(at) and (value is None or _is_number(value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not (isinstance(value, float) and math.isnan(value))


def _replace_store(folder: Path, new: Path) -> None:
    """Put the store `new` in the place of the damaged one, which keeps another name."""
    store, wal = folder / FILE_NAME, folder / WAL
    aside = free_name(store)
    for old, kept in ((wal, aside.with_name(f"{aside.name}-wal")), (store, aside)):
        if not old.is_file():
            continue
        try:
            os.link(old, kept)  # so that there is a store at every moment
        except OSError:  # this file system has no hard links
            shutil.copyfile(old, kept)
        sync_to_disk(kept)
    # A write-ahead log would be applied to whatever database has its name.
    for old in (wal, folder / f"{FILE_NAME}-shm"):
        old.unlink(missing_ok=True)
    new.replace(store)
    sync_to_disk(folder)
