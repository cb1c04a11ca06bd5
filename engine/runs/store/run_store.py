"""The store of a run, `run.sqlite`: its format, and the only connection that writes it."""

from __future__ import annotations

import math
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from engine.files.format_version import FormatVersion
from engine.files.sqlite_file import set_limits
from engine.messages.events import Event, Metrics, Notice, Progress
from engine.runs.run_state import RunStatus, fold
from engine.spec.recipe_copy import KeptFile

if TYPE_CHECKING:
    from engine.runs.store.point_tables import PointTables

FILE_NAME = "run.sqlite"
LOCK_MS = 200
"""The longest wait of a write while another program has locked the store."""

LARGEST_FILE = 256 * 2**10
"""Bytes of the largest file of which it keeps a copy."""

_MOST_KEPT = 1000
"""Copies of files that it reads, the newest ones."""

FORMAT = FormatVersion(1, 1)
"""SQLite's `user_version`. `docs/compatibility.md` lists the versions, and when to increase it."""

SCHEMA = """
CREATE TABLE IF NOT EXISTS event (
    seq INTEGER PRIMARY KEY,
    time REAL NOT NULL,
    body BLOB NOT NULL              -- MessagePack of the event: JSON has no NaN
);
CREATE TABLE IF NOT EXISTS series (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    count INTEGER NOT NULL
);
CREATE TABLE IF NOT EXISTS point (
    series INTEGER NOT NULL,
    i INTEGER NOT NULL,             -- place in the series, from 0
    step INTEGER NOT NULL,
    time REAL NOT NULL,             -- seconds since the epoch
    value REAL,                     -- NULL is NaN, which SQLite cannot store
    PRIMARY KEY (series, i)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS not_finite ON point (series, step)
    WHERE value - value IS NULL;    -- NaN and infinities, which the blocks would hide
CREATE TABLE IF NOT EXISTS block (
    series INTEGER NOT NULL,
    level INTEGER NOT NULL,         -- a block of level k stands for 16**k points
    i INTEGER NOT NULL,
    step INTEGER NOT NULL,
    time REAL NOT NULL,
    low REAL,
    high REAL,
    mean REAL,
    PRIMARY KEY (series, level, i)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS status (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    generation INTEGER NOT NULL,    -- increases when points are deleted
    body BLOB NOT NULL              -- MessagePack of RunStatus
);
CREATE TABLE IF NOT EXISTS file (   -- copies of the files that a run cannot do without
    attempt INTEGER NOT NULL,       -- the first attempt that found this content
    name TEXT NOT NULL,             -- relative to the run folder: spec.toml
    body BLOB NOT NULL,
    PRIMARY KEY (attempt, name)
) WITHOUT ROWID;
"""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Event).decode


class RunStore:
    """Writes the store of one run. No other connection writes it or checkpoints its WAL.

    Readers see new data only after `commit`, which the supervisor calls about every 100 ms.
    """

    def __init__(self, folder: Path) -> None:
        """Open the store in the run folder, or create it. Raises sqlite3.Error."""
        self.wal = folder / f"{FILE_NAME}-wal"
        """What is committed is here or, synced by SQLite, in the database: once this file is synced
        too, a power cut loses no commit. It stays the same file while the store is open, and the
        locks are on other files."""

        self._connection = sqlite3.connect(folder / FILE_NAME, isolation_level=None)
        set_limits(self._connection)
        try:
            self._open()
        except BaseException:
            self._connection.close()
            raise
        # Later it waits for another program that locks the store by keeping the data in memory.
        self._connection.execute(f"PRAGMA busy_timeout = {LOCK_MS}")

    def _open(self) -> None:
        self._connection.execute("PRAGMA trusted_schema=OFF")
        self._format = read_format(self._connection)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.executescript(SCHEMA)
        if not has_means(self._connection):
            self._connection.execute("ALTER TABLE block ADD COLUMN mean REAL")
        if self._format < FORMAT:
            self._format = FORMAT
            self._connection.execute(f"PRAGMA user_version = {FORMAT.number}")
        self.status: RunStatus
        self._dirty: bool
        self._read_back()
        self.commit()

    def append(self, event: Event, time: float) -> None:
        """Record `event`, which arrived at `time` (seconds since the epoch), and fold it."""
        self.write(event, time, fold(self.status, event, time))

    def write(self, event: Event, time: float, status: RunStatus) -> None:
        """Record `event`, which arrived at `time`; `status` is the status after it."""
        self._begin()
        self.status = status
        match event:
            case Metrics():
                for points in event.points:
                    self._point_tables().append(points, event.begin, event.end)
            case Progress():
                pass  # the status contains the newest one; older ones are not needed
            case _:
                self._connection.execute(
                    "INSERT INTO event (time, body) VALUES (?, ?)",
                    (time, _encode(event)),
                )

    def commit(self) -> None:
        """Make the appended data visible to readers. Raises sqlite3.Error, also for a full disk."""
        if not self._dirty:
            return
        self._begin()
        self._connection.execute(
            "INSERT INTO status (one, generation, body) VALUES (1, ?, ?) ON CONFLICT (one) "
            "DO UPDATE SET generation = excluded.generation, body = excluded.body",
            (self._generation, encode_status(self.status)),
        )
        self._connection.execute("COMMIT")
        self._dirty = False

    def roll_back(self) -> None:
        """Drop the data appended since the last commit; SQLite may have rolled it back already."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        self._read_back()

    def rewind(self, step: int, *, validates_again: bool = False) -> None:
        """Delete every point after `step`, because the run continues from there.

        With `validates_again`, also delete the validation points at `step`, because the run repeats
        this validation.
        """
        self._begin()
        self._generation += 1
        self._point_tables().rewind(step, validates_again=validates_again)

    def keep_file(self, name: str, body: bytes) -> None:
        """Keep a copy of the run's file `name`, unless the newest copy is the same."""
        self._begin()
        newest = self._connection.execute(
            "SELECT body FROM file WHERE name = ? ORDER BY attempt DESC LIMIT 1", (name,)
        ).fetchone()
        if newest is None or newest[0] != body:
            self._connection.execute(
                "INSERT OR REPLACE INTO file (attempt, name, body) VALUES (?, ?, ?)",
                (self.status.attempt, name, body),
            )

    def forget_file(self, name: str) -> None:
        """Delete the copies of the run's file `name`, which is none of the run any more."""
        self._begin()
        self._connection.execute("DELETE FROM file WHERE name = ?", (name,))

    def kept_files(self) -> list[KeptFile]:
        """Return the copies of the run's files, by attempt. Raises sqlite3.Error."""
        return read_kept_files(self._connection)

    def delete_events_after(self, seq: int) -> None:
        """Delete every event after number `seq`, and restore the status after that event.

        Also delete the copies of files that later attempts kept.
        """
        self._begin()
        self._connection.execute("DELETE FROM event WHERE seq > ?", (seq,))
        self.status = RunStatus()
        for time, body in self._connection.execute("SELECT time, body FROM event ORDER BY seq"):
            self.status = fold(self.status, decode_event(body, self._format), time)
        self._connection.execute("DELETE FROM file WHERE attempt > ?", (self.status.attempt,))

    def set_status(self, status: RunStatus) -> None:
        """Replace the status without an event."""
        self._begin()
        self.status = status

    def prepare_for_points(self) -> None:
        """Do in advance what the first points would have to wait for. Raises sqlite3.Error."""
        self._point_tables()

    def series(self) -> set[str]:
        """Return the names of the series that it has. Raises sqlite3.Error."""
        query = "SELECT name FROM series NOT INDEXED"  # checks the table that `PointTables` reads
        return {str(name) for (name,) in self._connection.execute(query)}

    def values(self, series: str, last_step: int) -> list[tuple[int, float]]:
        """Return the points of `series` until `last_step`, by step: of one with a point per epoch,
        because it reads all. Raises sqlite3.Error."""
        rows = self._connection.execute(
            "SELECT step, value FROM point WHERE series = (SELECT id FROM series WHERE name = ?) "
            "AND step <= ? ORDER BY i",
            (series, last_step),
        )
        return [(int(step), math.nan if value is None else value) for step, value in rows]

    def last_seq(self) -> int:
        """Return the number of the newest event; 0 before the first."""
        row = self._connection.execute("SELECT coalesce(max(seq), 0) FROM event").fetchone()
        return int(row[0])

    def close(self) -> None:
        """Commit and close."""
        self.commit()
        self._connection.close()

    def _read_back(self) -> None:
        row = self._connection.execute("SELECT generation, body FROM status").fetchone()
        self._generation: int = row[0] if row else 0
        self.status = msgspec.msgpack.decode(row[1], type=RunStatus) if row else RunStatus()
        self._tables: PointTables | None = None
        self._dirty = row is None

    def _point_tables(self) -> PointTables:
        if self._tables is None:
            # numpy would be a quarter of the start of a supervisor; the workers start meanwhile.
            from engine.runs.store.point_tables import PointTables

            self._tables = PointTables(self._connection)
        return self._tables

    def _begin(self) -> None:
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")
        self._dirty = True


def read_kept_files(connection: sqlite3.Connection) -> list[KeptFile]:
    """Return the copies of the run's files, by attempt; none from an old store.

    Raises sqlite3.Error.
    """
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'file'").fetchone():
        return []
    found = connection.execute(
        "SELECT attempt, name, body FROM file WHERE typeof(attempt) = 'integer' AND "
        "typeof(name) = 'text' AND typeof(body) = 'blob' AND length(body) <= ? "
        "ORDER BY attempt DESC, name LIMIT ?",
        (LARGEST_FILE, _MOST_KEPT),
    )
    return [KeptFile(*row) for row in reversed(found.fetchall())]


def read_format(connection: sqlite3.Connection) -> FormatVersion:
    """Return the format of a store. Raises sqlite3.DatabaseError if only a newer one reads it."""
    (number,) = connection.execute("PRAGMA user_version").fetchone()
    found = FormatVersion.from_number(number)
    if reason := found.why_unreadable(FILE_NAME, FORMAT):
        raise sqlite3.DatabaseError(reason)
    return found


def decode_event(body: bytes, found: FormatVersion) -> Event:
    """Decode an event of a store with the format `found`. Raises msgspec.DecodeError.

    A kind of event that only a newer format has becomes a notice.
    """
    try:
        event: Event = _decode(body)
    except msgspec.ValidationError:
        if found <= FORMAT:
            raise
        event = Notice(f"An event that only a newer version of Traindeck reads (format {found}).")
    return event


def encode_status(status: RunStatus) -> bytes:
    """Return `status` as the store keeps it."""
    return _encode(status)


def has_means(connection: sqlite3.Connection) -> bool:
    """Return whether the blocks have a mean; those of an old store have none."""
    found = connection.execute("SELECT 1 FROM pragma_table_info('block') WHERE name = 'mean'")
    return found.fetchone() is not None
