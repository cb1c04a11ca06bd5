"""Checks and rebuilds the pyramid of blocks of a series from its points."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from engine.runs.store.downsampling import FACTOR, Blocks, PyramidTail, single
from engine.runs.store.point_tables import insert_blocks, read_blocks
from engine.runs.store.run_store import has_means

_BATCH = FACTOR**4
"""Points that are read at once."""


class _Part(NamedTuple):
    """Consecutive blocks of one level, from block number `first`."""

    level: int
    first: int
    blocks: Blocks


def blocks_are_right(connection: sqlite3.Connection, series: int) -> bool:
    """Whether the stored blocks of `series` are those of its points. Raises sqlite3.Error."""
    expected = 0
    for part in _computed(connection, series):
        expected += len(part.blocks.step)
        if not _equals_stored(connection, series, part):
            return False
    (stored,) = connection.execute(
        "SELECT count(*) FROM block WHERE series = ?", (series,)
    ).fetchone()
    return bool(stored == expected)


def rebuild_blocks(connection: sqlite3.Connection, series: int) -> None:
    """Replace the blocks of `series`, in the transaction of the caller. Raises sqlite3.Error."""
    connection.execute("DELETE FROM block WHERE series = ?", (series,))
    for part in _computed(connection, series):
        insert_blocks(connection, series, part.level, part.first, part.blocks)


def _computed(connection: sqlite3.Connection, series: int) -> Iterator[_Part]:
    tail, done = PyramidTail(), 0
    while True:
        points = read_blocks(connection, series, 0, done, done + _BATCH)
        if not len(points.step):
            return
        completed = tail.extend(single(points.step, points.time, points.low))
        for level, blocks in enumerate(completed, 1):
            yield _Part(level, done // FACTOR**level, blocks)
        done += len(points.step)


def _equals_stored(connection: sqlite3.Connection, series: int, part: _Part) -> bool:
    mean = "mean" if has_means(connection) else "NULL"
    rows = connection.execute(
        f"SELECT step, time, low, high, {mean} FROM block "
        "WHERE series = ? AND level = ? AND i >= ? AND i < ? ORDER BY i",
        (series, part.level, part.first, part.first + len(part.blocks.step)),
    ).fetchall()
    stored = Blocks(*np.array(rows, dtype=np.float64).reshape(-1, 5).T)
    if len(stored.step) != len(part.blocks.step):
        return False
    exact = zip(stored[:4], part.blocks[:4], strict=True)
    if not all(np.array_equal(ours, theirs, equal_nan=True) for ours, theirs in exact):
        return False
    has_mean = ~np.isnan(stored.mean)  # blocks of an old store have none
    return bool(
        np.allclose(stored.mean[has_mean], part.blocks.mean[has_mean], rtol=1e-9, equal_nan=True)
    )
