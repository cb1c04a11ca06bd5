"""Builds the store of a run anew: from what can be read of it, and its backup."""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from contextlib import closing
from pathlib import Path
from typing import NamedTuple, cast

import msgspec

from engine.files.atomic_file import sync_to_disk
from engine.files.format_version import FormatVersion
from engine.messages.events import AttemptStarted, Event, Notice, Rewound, RunEnded
from engine.repair.report import free_name
from engine.repair.store_check import WAL, folded, is_damage, open_backup, open_store
from engine.repair.stored_blocks import rebuild_blocks
from engine.runs.checkpoints import checkpoint_files
from engine.runs.run_state import RunStatus
from engine.runs.store.run_store import (
    FILE_NAME,
    FORMAT,
    LARGEST_FILE,
    RunStore,
    decode_event,
    encode_status,
)
from engine.runs.store.store_backup import FILE_NAME as BACKUP
from engine.runs.store.store_backup import back_up
from engine.spec import spec_file
from engine.spec.recipe_copy import KeptFile

MOST_FAILURES = 20_000
"""Failed reads after which the rest of a damaged table is given up: two for each lost row."""

_LARGEST_KEY = 2**40
"""Above every number of an event or a point, where the largest one cannot be read."""

_TEMPORARY = ".fsck-"
_WHOLE_LOG = "whole-log"
_MOST_SERIES = 100_000
_MOST_ATTEMPTS = 1000
_UNKNOWN = -1

_FOUND_POINTS = """
CREATE TABLE found.point (
    series INTEGER, i INTEGER, step INTEGER, time REAL, value REAL, PRIMARY KEY (series, i)
) WITHOUT ROWID
"""
_ADD_POINT = (
    "INSERT OR IGNORE INTO found.point (series, i, step, time, value) VALUES (?, ?, ?, ?, ?)"
)
_ADD_FILE = "INSERT OR IGNORE INTO file (attempt, name, body) VALUES (?, ?, ?)"

Row = tuple[object, ...]


class Salvaged(NamedTuple):
    """How much of a damaged store could be read, and how much it is known to have held."""

    points: int = 0
    known_points: int = 0
    events: int = 0
    known_events: int = 0
    is_all_known: bool = False
    """Whether the store tells the number of its events, and of the points of each series found."""

    backup_points: int = 0
    backup_events: int = 0
    """Those of `points` and `events` that only the backup had."""

    @property
    def text(self) -> str:
        """A clause."""
        least = "" if self.is_all_known else "at least "
        text = (
            f"{self.points} of {least}{self.known_points} points and {self.events} of "
            f"{least}{self.known_events} events could be read"
        )
        if self.backup_points or self.backup_events:
            text += f", {self.backup_points} points and {self.backup_events} events in the backup"
        points, events = self.known_points - self.points, self.known_events - self.events
        if points or events:
            return f"{text}: {least}{points} points and {events} events are lost"
        return text if self.is_all_known else f"{text}: whether more are lost cannot be known"


def rebuild_store(folder: Path, why: str) -> Salvaged:
    """Replace the store of the run in `folder` by a new one with all that can be read.

    What cannot be read of it is taken from its backup, which is then made anew. The old store is
    kept as `run.sqlite.damaged-<n>`. `why` is a clause for an event of the run. If this raises,
    nothing has changed. Raises sqlite3.Error, OSError.
    """
    new = temporary_folder(folder)
    try:
        with closing(RunStore(new)):
            pass  # creates the tables
        with closing(sqlite3.connect(new / FILE_NAME, isolation_level=None)) as connection:
            connection.execute("ATTACH ? AS found", (str(new / "found.sqlite"),))
            connection.execute("PRAGMA found.journal_mode = OFF")
            connection.execute(_FOUND_POINTS)
            connection.execute("BEGIN IMMEDIATE")
            salvaged = _copy_readable(folder, connection)
            if not salvaged.events:
                attempt = _known_status(connection).attempt
                _write_events(connection, _events_of_unknown(folder, attempt))
            _finish(folder, connection, f"{why}. It was rebuilt by `fsck`", salvaged)
            connection.execute("COMMIT")
            connection.execute("DETACH found")
            if has_log(folder):
                # The log of the new store then holds all of it, see `_replace_store`.
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                connection.execute("PRAGMA wal_autocheckpoint = 0")
                connection.execute("VACUUM")
                shutil.copyfile(new / WAL, new / _WHOLE_LOG)
                sync_to_disk(new / _WHOLE_LOG)
        if has_log(new):  # SQLite does not say at the close that it could not empty the log
            raise OSError("the disk does not take the new store")
        sync_to_disk(new / FILE_NAME)
        _replace_store(folder, new)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    with contextlib.suppress(OSError, sqlite3.Error):  # a full disk: the old one counts as older
        back_up(folder)
    return salvaged


def readable_files(folder: Path) -> list[KeptFile]:
    """Return the copies of the run's files that a damaged store or its backup has, by attempt.

    Raises sqlite3.Error, OSError if the disk or another process is the cause.
    """
    found: dict[tuple[int, str], KeptFile] = {}
    for opened in (open_store, open_backup):
        with _readable(folder, opened) as source:
            for file in _kept_files(source)[0] if source else ():
                found.setdefault((file.attempt, file.name), file)
    return sorted(found.values())


def temporary_folder(folder: Path) -> Path:
    """Create a folder for what a repair of the run in `folder` writes; see `leftovers`."""
    return Path(tempfile.mkdtemp(prefix=_TEMPORARY, suffix=".tmp", dir=folder))


def has_log(folder: Path) -> bool:
    """Whether the store in `folder` has a write-ahead log with something in it."""
    wal = folder / WAL
    return wal.is_file() and wal.stat().st_size > 0


def kept_name(folder: Path) -> Path:
    """Return the name that the damaged store gets; its log gets the same, with `-wal`."""
    return free_name(folder / FILE_NAME, ("", "-wal"))


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


@contextlib.contextmanager
def _readable(
    folder: Path, opened: Callable[[Path], contextlib.AbstractContextManager[sqlite3.Connection]]
) -> Iterator[sqlite3.Connection | None]:
    """Open the store or the backup, as `opened` does; yield None if nothing of it can be read."""
    with contextlib.ExitStack() as stack:
        source = None
        name = FILE_NAME if opened is open_store else BACKUP
        if (folder / name).exists():
            try:
                source = stack.enter_context(opened(folder))
                source.execute("PRAGMA user_version").fetchone()
            except sqlite3.Error as error:
                if not is_damage(error):
                    raise
                source = None
        yield source


def _copy_readable(folder: Path, new: sqlite3.Connection) -> Salvaged:
    """Copy what can be read of the old store, and then what only its backup has."""
    rest = _Rest(new)
    for opened in (open_store, open_backup):
        with _readable(folder, opened) as source:
            if source is None:
                continue
            rest.begin(source, is_backup=opened is open_backup)
            _copy_events(source, rest)
            _copy_files(source, rest)
            _copy_points(source, rest)
            _copy_status(source, new)
    new.execute(f"PRAGMA user_version = {rest.version.number}")
    # Above that of the backup, which then counts as older: rows after a gap get other places.
    new.execute("UPDATE status SET generation = max(generation, ?)", (rest.generation + 1,))
    return rest.finish()


class _Rest:
    """Adds what is found to the new store; each row once: first those of the old store, then those
    of its backup."""

    def __init__(self, new: sqlite3.Connection) -> None:
        self.version = FORMAT
        self.generation = _UNKNOWN
        """The highest of both, which increases when points are deleted."""

        self.is_end_known = False
        """Whether the old store tells the number of its newest event."""

        self.has_all_files = False
        """Whether all copies of files in the old store could be read."""

        self._new = new
        self._names: dict[int, str] = {}
        self._counts: dict[int, int] = {}
        self._counted: set[int] = set()
        """The series whose counts the old store tells."""

        self._is_backup = False
        self._before_backup = (0, 0)
        self._until = math.inf
        """The step from which on points do not count."""

    def begin(self, source: sqlite3.Connection, *, is_backup: bool) -> None:
        """Begin with the rows of `source`."""
        (number,) = source.execute("PRAGMA user_version").fetchone()
        self.version = max(self.version, FormatVersion.from_number(number))
        generation = _generation(source)
        if is_backup:
            self._is_backup = True
            self._before_backup = self._numbers()
            self._until = self._valid_until(source, generation)
        self.generation = max(self.generation, generation)

    def _valid_until(self, backup: sqlite3.Connection, generation: int) -> float:
        """Return the step from which on the run has taken back what its backup holds."""
        last = _end(backup, "event", "seq") - 1
        later = self._new.execute("SELECT body FROM event WHERE seq > ?", (last,)).fetchall()
        events = [decode_event(body, self.version) for (body,) in later]
        steps = [event.step for event in events if isinstance(event, Rewound)]
        if steps:
            return min(steps)
        is_same = self.generation in (_UNKNOWN, generation)
        return math.inf if is_same else -math.inf

    def _numbers(self) -> tuple[int, int]:
        """Return how many points and events were found by now."""
        (points,) = self._new.execute("SELECT count(*) FROM found.point").fetchone()
        (events,) = self._new.execute("SELECT count(*) FROM event").fetchone()
        return points, events

    def note_end(self, end: int) -> None:
        """Note a number above that of the newest event, as the source tells it."""
        self.is_end_known |= not self._is_backup and end < _LARGEST_KEY

    def add_event(self, seq: object, at: object, body: object) -> None:
        """Add an event, if it is one."""
        try:
            decode_event(body, self.version)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return
        if _is_number(at) and _is_key(seq):
            self._new.execute(
                "INSERT OR IGNORE INTO event (seq, time, body) VALUES (?, ?, ?)", (seq, at, body)
            )

    def add_file(self, file: KeptFile) -> None:
        """Add the copy of a file. The old store has forgotten those that it does not have."""
        if not (self._is_backup and self.has_all_files):
            self._new.execute(_ADD_FILE, (file.attempt, file.name, file.body))

    def add_series(self, id: object, name: object, count: object) -> None:
        """Add the name of a series, and the number of its points."""
        if isinstance(id, int) and isinstance(name, str):
            self._names.setdefault(id, name)
        if isinstance(id, int) and _is_key(count) and self._until == math.inf:
            self._counts.setdefault(id, cast(int, count))
            if not self._is_backup:
                self._counted.add(id)

    def add_points(self, rows: Iterable[Row]) -> None:
        """Add rows of the table `point`, but those that the run has taken back."""
        self._new.executemany(_ADD_POINT, (row for row in rows if self._is_valid(row)))

    def _is_valid(self, row: Row) -> bool:
        """Whether this is a point that the run has not taken back."""
        if not _is_point(row):
            return False
        series, i, step = cast("tuple[int, int, int]", tuple(row[:3]))
        # The number of points in the old store is below that of its backup only after a rewind.
        is_counted = self._is_backup and series in self._counted
        return step < self._until and (not is_counted or i < self._counts[series])

    def _is_all_known(self, found: Set[int], events: int) -> bool:
        """Whether the old store tells how many events it had, and points of the series `found`."""
        return self.is_end_known and bool(events and self._counted) and found <= self._counted

    def finish(self) -> Salvaged:
        """Write the points, those after a gap moved up, and the series; return the numbers."""
        new = self._new
        found = {
            id: (count, end)
            for id, count, end in new.execute(
                "SELECT series, count(*), max(i) + 1 FROM found.point GROUP BY series"
            )
        }
        new.execute(
            "INSERT INTO point (series, i, step, time, value) SELECT series, "
            "row_number() OVER (PARTITION BY series ORDER BY i) - 1, step, time, value "
            "FROM found.point ORDER BY series, i"
        )
        used: set[str] = set()
        known = 0
        for id in sorted(found.keys() | self._names.keys()):
            count, end = found.get(id, (0, 0))
            name = self._names.get(id, "")
            if not name or name in used:
                name = f"recovered/{id}"
            used.add(name)
            new.execute("INSERT INTO series (id, name, count) VALUES (?, ?, ?)", (id, name, count))
            rebuild_blocks(new, id)
            known += max(end, self._counts.get(id, 0))
        events, last = new.execute("SELECT count(*), coalesce(max(seq), 0) FROM event").fetchone()
        points = sum(count for count, _ in found.values())
        before = self._before_backup if self._is_backup else (points, events)
        return Salvaged(
            points,
            known,
            events,
            max(events, last),
            is_all_known=self._is_all_known(found.keys(), events),
            backup_points=points - before[0],
            backup_events=events - before[1],
        )


def _copy_events(source: sqlite3.Connection, rest: _Rest) -> None:
    query = "SELECT seq, time, body FROM event WHERE seq >= ? AND seq < ? ORDER BY seq"
    end = _end(source, "event", "seq")
    rest.note_end(end)
    for row in DamagedTable(source).rows(query, (), end):
        rest.add_event(*row)


def _copy_files(source: sqlite3.Connection, rest: _Rest) -> None:
    found, are_all = _kept_files(source)
    for file in found:
        rest.add_file(file)
    rest.has_all_files |= are_all


def _kept_files(source: sqlite3.Connection) -> tuple[list[KeptFile], bool]:
    """Return the copies of files that can be read, and whether these are all that were kept."""
    end = _end(source, "file", "attempt")
    found: list[KeptFile] = []
    are_all = end <= _MOST_ATTEMPTS
    query = "SELECT attempt, name, body FROM file WHERE attempt = ? AND length(body) <= ?"
    for attempt in range(min(end, _MOST_ATTEMPTS)):
        try:
            for row in source.execute(query, (attempt, LARGEST_FILE)):
                if [type(value) for value in row] == [int, str, bytes]:
                    found.append(KeptFile(*row))
        except sqlite3.Error as error:  # also: a store of an old format has no such table
            if not is_damage(error):
                raise
            are_all = False
    return found, are_all


def _copy_points(old: sqlite3.Connection, rest: _Rest) -> None:
    ids = set()
    query = "SELECT id, name, count FROM series WHERE id >= ? AND id < ? ORDER BY id"
    for row in DamagedTable(old).rows(query, (), _end(old, "series", "id")):
        rest.add_series(*row)
        if isinstance(row[0], int):
            ids.add(row[0])
    table = DamagedTable(old)
    for id in _series_with_points(old, ids):
        query = "SELECT i, step, time, value FROM point WHERE series = ? AND i >= ? AND i < ?"
        rows = table.rows(f"{query} ORDER BY i", (id,), _end(old, "point", "i", id))
        rest.add_points((id, *row) for row in rows)


def _series_with_points(old: sqlite3.Connection, named: set[int]) -> list[int]:
    """Return the ids of all series, also of those whose names are lost."""
    found = set(named)
    id = -1
    with contextlib.suppress(sqlite3.Error):
        while len(found) < _MOST_SERIES:
            row = old.execute("SELECT min(series) FROM point WHERE series > ?", (id,)).fetchone()
            if not isinstance(row[0], int):
                break
            id = row[0]
            found.add(id)
    return sorted(found)


def _generation(source: sqlite3.Connection) -> int:
    """Return how often points were deleted, which the status tells, or _UNKNOWN."""
    try:
        row = source.execute("SELECT generation FROM status").fetchone()
    except sqlite3.Error as error:
        if not is_damage(error):
            raise
        return _UNKNOWN
    return row[0] if row and _is_key(row[0]) else _UNKNOWN


def _copy_status(old: sqlite3.Connection, new: sqlite3.Connection) -> None:
    with contextlib.suppress(sqlite3.Error, TypeError):
        (body,) = old.execute("SELECT body FROM status").fetchone()
        _keep_status(new, body)


def _keep_status(new: sqlite3.Connection, body: object) -> None:
    """Set the status, if `body` is one and none was found before."""
    if _known_status(new).attempt:
        return
    with contextlib.suppress(ValueError):
        if isinstance(body, bytes):
            msgspec.msgpack.decode(body, type=RunStatus)
            _set_status(new, body)


def _finish(folder: Path, new: sqlite3.Connection, why: str, salvaged: Salvaged) -> None:
    """Write the status that the events say, and an event about the repair."""
    known = _known_status(new)
    if known.attempt > folded(new, None).attempt:  # the event was lost, here and below
        started = AttemptStarted(known.attempt, known.supervisor_pid, known.supervisor_created)
        _write_events(new, [(started, known.attempt_started)])
    if known.state.is_over and folded(new, None).state is not known.state:
        _write_events(new, [(RunEnded(known.state, known.reason), known.updated)])
    text = f"The store was damaged: {why}. {salvaged.text}."
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


def _events_of_unknown(folder: Path, attempt: int) -> list[tuple[Event, float]]:
    """Return the events of a stopped run of which no event could be read: it can be resumed."""
    attempt = max([1, attempt, *spec_file.older_specs(folder)])
    saved = checkpoint_files.checkpoints(folder)
    at = saved[-1].manifest.saved if saved else time.time()
    return [
        (AttemptStarted(attempt, 0, 0.0), at),
        (RunEnded("stopped" if saved else "failed", "Its store was lost."), at),
    ]


def _end(old: sqlite3.Connection, table: str, key: str, series: int | None = None) -> int:
    """Return a number above the largest key of a table."""
    condition, parameters = ("", ()) if series is None else (" WHERE series = ?", (series,))
    try:
        (last,) = old.execute(f"SELECT max({key}) FROM {table}{condition}", parameters).fetchone()
    except sqlite3.Error:
        return _LARGEST_KEY
    if isinstance(last, int):
        return min(last + 1, _LARGEST_KEY)
    return 0 if last is None else _LARGEST_KEY


def _is_point(row: Row) -> bool:
    series, i, step, at, value = row
    return (
        isinstance(series, int)
        and _is_key(i)
        and isinstance(step, int)
        and _is_number(at)
        and (value is None or _is_number(value))
    )


def _is_key(value: object) -> bool:
    return isinstance(value, int) and 0 <= value < _LARGEST_KEY


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not (isinstance(value, float) and math.isnan(value))


def _replace_store(folder: Path, new: Path) -> None:
    """Put the store in the folder `new` in the place of the damaged one, which gets another name.

    At every moment there is a store: the damaged one with its write-ahead log, or the new one. A
    log is applied to whatever database has its name. Therefore one that holds the whole new store
    first takes the place of the old one: the new store is the same with it and without it.
    """
    store, wal = folder / FILE_NAME, folder / WAL
    aside = kept_name(folder)
    logged = (new / _WHOLE_LOG).exists()
    kept = [(store, aside)] if store.is_file() else []
    if logged:
        kept.insert(0, (wal, aside.with_name(f"{aside.name}-wal")))
    for old, name in kept:
        try:
            if logged and old == store:
                raise OSError  # SQLite may write the log into the file
            os.link(old, name)
        except OSError:  # also: this file system has no hard links
            shutil.copyfile(old, new / name.name)
            sync_to_disk(new / name.name)
            (new / name.name).replace(name)
    sync_to_disk(folder)
    (folder / f"{FILE_NAME}-shm").unlink(missing_ok=True)
    if logged:
        (new / _WHOLE_LOG).replace(wal)
        sync_to_disk(folder)
    (new / FILE_NAME).replace(store)
    sync_to_disk(folder)
    wal.unlink(missing_ok=True)
    sync_to_disk(folder)
