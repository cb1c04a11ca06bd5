"""The store of a run, `run.sqlite`: its format, and the only connection that writes it."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import numpy as np

from engine.messages.events import Event, Metrics, Points, Progress
from engine.runs.downsampling import FACTOR, Blocks, PyramidTail, single
from engine.runs.run_state import RunStatus, fold

FILE_NAME = "run.sqlite"

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
"""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Event).decode


class _Series(msgspec.Struct):
    id: int
    count: int
    tail: PyramidTail


class RunStore:
    """Writes the store of one run. No other connection writes it or checkpoints its WAL.

    Readers see new data only after `commit`, which the supervisor calls about every 100 ms.
    """

    def __init__(self, folder: Path) -> None:
        """Open the store in the run folder, or create it. Raises sqlite3.Error."""
        self._connection = sqlite3.connect(folder / FILE_NAME, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.executescript(SCHEMA)
        if not _has_means(self._connection):
            self._connection.execute("ALTER TABLE block ADD COLUMN mean REAL")
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
                    self._append_points(points, event.begin, event.end)
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
            "INSERT INTO status VALUES (1, ?, ?) ON CONFLICT (one) "
            "DO UPDATE SET generation = excluded.generation, body = excluded.body",
            (self._generation, _encode(self.status)),
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
        self._connection.execute("DELETE FROM point WHERE step > ?", (step,))
        if validates_again:
            self._connection.execute(
                "DELETE FROM point WHERE step = ? AND series IN "
                "(SELECT id FROM series WHERE name LIKE 'validation/%')",
                (step,),
            )
        size = f"(1 << ({FACTOR.bit_length() - 1} * level))"  # SQLite may have no power()
        for name, series in list(self._series.items()):
            (count,) = self._connection.execute(
                "SELECT coalesce(max(i), -1) + 1 FROM point WHERE series = ?", (series.id,)
            ).fetchone()
            self._connection.execute(
                f"DELETE FROM block WHERE series = ? AND (i + 1) * {size} > ?",
                (series.id, count),
            )
            self._set_count(series.id, count)
            self._series[name] = _Series(series.id, count, self._pyramid_tail(series.id, count))

    def delete_events_after(self, seq: int) -> None:
        """Delete every event after number `seq`, and restore the status after that event."""
        self._begin()
        self._connection.execute("DELETE FROM event WHERE seq > ?", (seq,))
        self.status = RunStatus()
        for time, body in self._connection.execute("SELECT time, body FROM event ORDER BY seq"):
            self.status = fold(self.status, _decode(body), time)

    def set_status(self, status: RunStatus) -> None:
        """Replace the status without an event."""
        self._begin()
        self.status = status

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
        self._series = {
            name: _Series(id, count, self._pyramid_tail(id, count))
            for id, name, count in self._connection.execute("SELECT id, name, count FROM series")
        }
        self._dirty = row is None

    def _begin(self) -> None:
        if not self._connection.in_transaction:
            self._connection.execute("BEGIN IMMEDIATE")
        self._dirty = True

    def _append_points(self, points: Points, begin: float, end: float) -> None:
        series = self._series.get(points.series)
        if series is None:
            cursor = self._connection.execute(
                "INSERT INTO series (name, count) VALUES (?, 0)", (points.series,)
            )
            assert cursor.lastrowid is not None
            series = self._series[points.series] = _Series(cursor.lastrowid, 0, PyramidTail())
        size = len(points.steps)
        # Workers report the begin and the end of a chunk of steps, not the time of each step.
        times = np.linspace(begin, end, size + 1)[1:]
        self._connection.executemany(
            "INSERT INTO point VALUES (?, ?, ?, ?, ?)",
            zip(
                [series.id] * size,
                range(series.count, series.count + size),
                points.steps,
                times.tolist(),
                points.values,
                strict=True,
            ),
        )
        values = np.array(points.values, dtype=np.float64)
        steps = np.array(points.steps, dtype=np.float64)
        for level, blocks in enumerate(series.tail.extend(single(steps, times, values)), 1):
            self._insert_blocks(series, level, series.count // FACTOR**level, blocks)
        series.count += size
        self._set_count(series.id, series.count)

    def _insert_blocks(self, series: _Series, level: int, first: int, blocks: Blocks) -> None:
        rows: Iterable[Sequence[float]] = zip(
            [series.id] * len(blocks.step),
            [level] * len(blocks.step),
            range(first, first + len(blocks.step)),
            blocks.step.astype(int).tolist(),
            blocks.time.tolist(),
            blocks.low.tolist(),
            blocks.high.tolist(),
            blocks.mean.tolist(),
            strict=True,
        )
        self._connection.executemany("INSERT INTO block VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def _set_count(self, id: int, count: int) -> None:
        self._connection.execute("UPDATE series SET count = ? WHERE id = ?", (count, id))

    def _pyramid_tail(self, id: int, count: int) -> PyramidTail:
        """Read the incomplete blocks of a series."""
        pending = []
        level = 0
        while count // FACTOR**level:
            done = count // FACTOR ** (level + 1) * FACTOR
            pending.append(read_blocks(self._connection, id, level, done))
            level += 1
        return PyramidTail(pending)


def read_blocks(
    connection: sqlite3.Connection, series: int, level: int, first: int, end: int = sys.maxsize
) -> Blocks:
    """Return the complete blocks `first` to `end` - 1 of `level`; level 0 contains the points."""
    if level:
        # Blocks in an old store have no mean: the middle of low and high replaces it.
        mean = "coalesce(mean, (low + high) / 2)" if _has_means(connection) else "(low + high) / 2"
        query = f"SELECT step, time, low, high, {mean} FROM block WHERE series = ? AND level = ?"
        parameters: tuple[int, ...] = (series, level, first, end)
    else:
        query = "SELECT step, time, value, value, value FROM point WHERE series = ?"
        parameters = (series, first, end)
    query += " AND i >= ? AND i < ? ORDER BY i"
    rows = connection.execute(query, parameters).fetchall()
    columns = np.array(rows, dtype=np.float64).reshape(-1, 5).T  # None becomes NaN
    return Blocks(*columns)


def _has_means(connection: sqlite3.Connection) -> bool:
    found = connection.execute("SELECT 1 FROM pragma_table_info('block') WHERE name = 'mean'")
    return found.fetchone() is not None
