"""Reads the points of a series from a store, exactly or as blocks, as NumPy arrays."""

from __future__ import annotations

import math
import sqlite3
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engine.runs.store.downsampling import (
    FACTOR,
    Array,
    Blocks,
    BlockStatistics,
    concatenate,
    zigzag,
)
from engine.runs.store.point_tables import read_blocks
from engine.system.later import Later

if TYPE_CHECKING:
    import numpy as np
else:
    np = Later("numpy")

MOST_GAPS = 1000
"""Largest number of points without a finite value in a curve of blocks."""


@dataclass(frozen=True)
class StoredPoints:
    """Points of one series in ascending order: float64 arrays of shape (points,).

    A value is NaN where the stored one is.
    """

    step: Array
    time: Array
    value: Array
    count: int
    """Number of points of the series up to the last one here: `points_after` continues from it."""

    statistics: BlockStatistics | None = None
    """The means of the blocks, if these points are minima and maxima of blocks. Smoothing uses the
    means, because a single spike would dominate smoothed minima and maxima."""

    def scaled(self, factor: float) -> StoredPoints:
        """Return a copy with values that are `factor` times as large."""
        statistics = self.statistics and self.statistics.scaled(factor)
        return replace(self, value=self.value * factor, statistics=statistics)


def history(connection: sqlite3.Connection, id: int, count: int, most: int) -> StoredPoints:
    """Return the `count` points of series number `id` in about `most` points."""
    if count <= most:
        return exact(connection, id, 0)
    level = _level(count, most)
    parts, covered = [], 0
    for finer in range(level, -1, -1):
        size = FACTOR**finer
        rest = read_blocks(connection, id, finer, covered // size)
        if finer:  # finer levels follow, down to single points for the newest points
            rest = Blocks(*(column[:-1] for column in rest))
        parts.append((rest, size))
        covered += len(rest.step) * size
    return _with_gaps(connection, id, _zigzag(parts, covered))


def window(
    connection: sqlite3.Connection,
    id: int,
    count: int,
    first_step: float,
    last_step: float,
    most: int,
) -> StoredPoints:
    """Return the points between two steps, and one more on each side."""

    def step(place: int) -> float:
        row = connection.execute(
            "SELECT step FROM point WHERE series = ? AND i = ?", (id, place)
        ).fetchone()
        return float(row[0]) if row else math.inf

    covered = max(0, bisect_left(range(count), first_step, key=step) - 1)
    end = min(count, bisect_right(range(count), last_step, key=step) + 1)
    level = _level(end - covered, most)
    begin = covered = covered - covered % FACTOR**level
    parts = []
    for finer in range(level, -1, -1):
        size = FACTOR**finer
        blocks = read_blocks(connection, id, finer, covered // size, end // size)
        parts.append((blocks, size))
        covered += len(blocks.step) * size
    if not level:
        return _curve(blocks, covered)
    return _with_gaps(connection, id, _zigzag(parts, covered), begin)


def overview_after(connection: sqlite3.Connection, id: int, count: int) -> StoredPoints:
    """Return the points after the first `count` as lows and highs of blocks of 16 points."""
    first = -(-count // FACTOR)
    single = read_blocks(connection, id, 0, count, first * FACTOR)
    whole = read_blocks(connection, id, 1, first)
    covered = count + len(single.step) + len(whole.step) * FACTOR
    return _with_gaps(connection, id, _zigzag([(single, 1), (whole, FACTOR)], covered), count)


def exact(
    connection: sqlite3.Connection, id: int, first: int, end: int = sys.maxsize
) -> StoredPoints:
    """Return the points with numbers from `first` to `end` - 1."""
    blocks = read_blocks(connection, id, 0, first, end)
    return _curve(blocks, first + len(blocks.step))


def _with_gaps(
    connection: sqlite3.Connection, id: int, curve: StoredPoints, first: int = 0
) -> StoredPoints:
    """Add the first MOST_GAPS points that are NaN or infinite to a curve of blocks.

    `curve` begins with point number `first`. The condition matches the index `not_finite`; with
    the plus signs SQLite uses this index.
    """
    rows = connection.execute(
        "SELECT step, time FROM point "
        "WHERE series = ? AND value - value IS NULL AND +i >= ? AND +i < ? "
        "ORDER BY step LIMIT ?",
        (id, first, curve.count, MOST_GAPS),
    ).fetchall()
    if not rows:
        return curve
    steps, times = np.array(rows, dtype=np.float64).T
    places = np.searchsorted(curve.step, steps, "right")
    statistics = curve.statistics
    return StoredPoints(
        np.insert(curve.step, places, steps),
        np.insert(curve.time, places, times),
        np.insert(curve.value, places, np.nan),
        curve.count,
        statistics
        and BlockStatistics(
            np.insert(statistics.mean, places, np.nan), np.insert(statistics.size, places, 1.0)
        ),
    )


def _curve(points: Blocks, count: int) -> StoredPoints:
    return StoredPoints(points.step, points.time, points.low, count)


def _zigzag(parts: Sequence[tuple[Blocks, int]], count: int) -> StoredPoints:
    """Return a curve of blocks; `parts` has blocks with the number of points per block."""
    blocks = concatenate(*(part for part, _ in parts))
    sizes = np.concatenate([np.full(len(part.step), size / 2) for part, size in parts])
    return StoredPoints(
        *zigzag(blocks), count, BlockStatistics(np.repeat(blocks.mean, 2), np.repeat(sizes, 2))
    )


def _level(count: int, most: int) -> int:
    """Return the finest level that shows `count` points in at most `most`; level 0: the points."""
    if count <= most:
        return 0
    level = 1
    while 2 * (count // FACTOR**level) > most:
        level += 1
    return level
