"""The tables of a store that hold its points: series, points, and the pyramid of their blocks."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from engine.messages.events import Points
from engine.runs.store.downsampling import FACTOR, Blocks, PyramidTail, single
from engine.runs.store.run_store import has_means
from engine.system.later import Later

if TYPE_CHECKING:
    import numpy as np
else:
    np = Later("numpy")

MOST_ROWS = 200_000
"""Points or blocks that are read at once; a curve has 20,000, a piece of an export 50,000."""


class _Series(msgspec.Struct):
    id: int
    count: int
    tail: PyramidTail


class PointTables:
    """Writes the points of one store, in the transactions of `engine.runs.store.run_store`."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        """Read the series that exist. Every method raises sqlite3.Error."""
        self._connection = connection
        self._series = {
            name: _Series(id, count, self._pyramid_tail(id, count))
            for id, name, count in connection.execute("SELECT id, name, count FROM series")
        }

    def append(self, points: Points, begin: float, end: float) -> None:
        """Add points of one series, measured from `begin` to `end` (seconds since the epoch).

        Points that have times of their own keep them.
        """
        series = self._series.get(points.series)
        if series is None:
            cursor = self._connection.execute(
                "INSERT INTO series (name, count) VALUES (?, 0)", (points.series,)
            )
            assert cursor.lastrowid is not None
            series = self._series[points.series] = _Series(cursor.lastrowid, 0, PyramidTail())
        size = len(points.steps)
        # Workers report the begin and the end of a chunk of steps, not the time of each step; what
        # waited for the supervisor has the time of each.
        times = np.array(points.times) if points.times else np.linspace(begin, end, size + 1)[1:]
        self._connection.executemany(
            "INSERT INTO point (series, i, step, time, value) VALUES (?, ?, ?, ?, ?)",
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
            first = series.count // FACTOR**level
            insert_blocks(self._connection, series.id, level, first, blocks)
        series.count += size
        self._set_count(series.id, series.count)

    def rewind(self, step: int, *, validates_again: bool) -> None:
        """See `engine.runs.store.run_store.RunStore.rewind`."""
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


def insert_blocks(
    connection: sqlite3.Connection, series: int, level: int, first: int, blocks: Blocks
) -> None:
    """Add the complete `blocks` of `level`, from block number `first`."""
    rows: Iterable[Sequence[float]] = zip(
        [series] * len(blocks.step),
        [level] * len(blocks.step),
        range(first, first + len(blocks.step)),
        blocks.step.astype(int).tolist(),
        blocks.time.tolist(),
        blocks.low.tolist(),
        blocks.high.tolist(),
        blocks.mean.tolist(),
        strict=True,
    )
    connection.executemany(
        "INSERT INTO block (series, level, i, step, time, low, high, mean) "
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        rows,
    )


def read_blocks(
    connection: sqlite3.Connection, series: int, level: int, first: int, end: int = sys.maxsize
) -> Blocks:
    """Return the complete blocks `first` to `end` - 1 of `level`; level 0 contains the points."""
    if level:
        # Blocks in an old store have no mean: the middle of low and high replaces it.
        mean = "coalesce(mean, (low + high) / 2)" if has_means(connection) else "(low + high) / 2"
        query = f"SELECT step, time, low, high, {mean} FROM block WHERE series = ? AND level = ?"
        parameters: tuple[int, ...] = (series, level, first, end)
    else:
        query = "SELECT step, time, value, value, value FROM point WHERE series = ?"
        parameters = (series, first, end)
    query += f" AND i >= ? AND i < ? ORDER BY i LIMIT {MOST_ROWS}"
    rows = connection.execute(query, parameters).fetchall()
    columns = np.array(rows, dtype=np.float64).reshape(-1, 5).T  # None becomes NaN
    return Blocks(*columns)
