"""Reads a run's store, live or finished, from any process: the other side of `engine.store`."""

from __future__ import annotations

import math
import sqlite3
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import msgspec
import numpy as np

from engine.events import Event
from engine.pyramid import FACTOR, Array, Blocks, concatenate, zigzag
from engine.run_state import RunStatus
from engine.store import FILE_NAME, read_blocks

_decode_event = msgspec.msgpack.Decoder(Event).decode
_decode_status = msgspec.msgpack.Decoder(RunStatus).decode


class StoredEvent(NamedTuple):
    """An event with its place in the run."""

    seq: int
    time: float
    """When the supervisor took it (seconds since the epoch)."""

    event: Event


@dataclass(frozen=True)
class Curve:
    """Points of one series in ascending order; equally long arrays, NaN where the value was NaN."""

    step: Array
    time: Array
    value: Array
    count: int
    """How many points of the series this covers, counted from its beginning: pass it to
    `points_after` for what comes next."""


class RunReader:
    """Read-only view of one run's store. Every method raises sqlite3.Error on a damaged file."""

    def __init__(self, folder: Path) -> None:
        """Raises sqlite3.OperationalError where there is no store (yet)."""
        uri = f"{(folder / FILE_NAME).as_uri()}?mode=ro"
        self._connection = sqlite3.connect(uri, uri=True, isolation_level=None)
        try:
            self._connection.execute("SELECT generation FROM status").fetchone()
        except sqlite3.Error:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    def status(self) -> RunStatus:
        """The newest status that the supervisor wrote. Whether it still lives is another question:
        `engine.client.state_of` asks the operating system."""
        row = self._connection.execute("SELECT body FROM status").fetchone()
        return _decode_status(row[0]) if row else RunStatus()

    def generation(self) -> int:
        """Goes up whenever points were taken away: then read every curve anew."""
        row = self._connection.execute("SELECT generation FROM status").fetchone()
        return int(row[0]) if row else 0

    def events_after(self, seq: int) -> list[StoredEvent]:
        """The events after number `seq` (0 for all), oldest first."""
        rows = self._connection.execute(
            "SELECT seq, time, body FROM event WHERE seq > ? ORDER BY seq", (seq,)
        )
        return [StoredEvent(seq, time, _decode_event(body)) for seq, time, body in rows]

    def last_seq(self) -> int:
        """Number of the newest event; 0 before the first."""
        row = self._connection.execute("SELECT coalesce(max(seq), 0) FROM event").fetchone()
        return int(row[0])

    def counts(self) -> dict[str, int]:
        """How many points every series has by now."""
        return dict(self._connection.execute("SELECT name, count FROM series"))

    def best(self, series: str, *, lowest: bool) -> tuple[float, int] | None:
        """The lowest or the highest finite value of a series and its first step; None without
        any. Looks at every point: meant for what is measured once an epoch."""
        id, _ = self._find(series)
        order = "value" if lowest else "value DESC"
        row = self._connection.execute(
            "SELECT value, step FROM point WHERE series = ? AND value BETWEEN ? AND ? "
            f"ORDER BY {order}, i LIMIT 1",
            (id, -LARGEST, LARGEST),
        ).fetchone()
        return (float(row[0]), int(row[1])) if row else None

    def history(self, series: str, most: int = 20_000) -> Curve:
        """A whole series in about `most` points at the most: exact if it is no longer than that,
        else the lowest and highest value of each block. Empty for an unknown series."""
        id, count = self._find(series)
        if count <= most:
            return self._exact(id, 0)
        level = _level(count, most)
        blocks, covered = NO_BLOCKS, 0
        for finer in range(level, -1, -1):
            size = FACTOR**finer
            rest = read_blocks(self._connection, id, finer, covered // size)
            if finer:  # all but the last block: the newest points are shown as they are
                rest = Blocks(*(column[:-1] for column in rest))
            blocks = concatenate(blocks, rest)
            covered += len(rest.step) * size
        return Curve(*zigzag(blocks), covered)

    def window(
        self, series: str, first_step: float, last_step: float, most: int = 20_000
    ) -> tuple[Curve, bool]:
        """The points between two steps and one to each side, as `history` gives the whole series;
        and whether they are exact."""
        id, count = self._find(series)

        def step(place: int) -> float:
            row = self._connection.execute(
                "SELECT step FROM point WHERE series = ? AND i = ?", (id, place)
            ).fetchone()
            return float(row[0]) if row else math.inf

        covered = max(0, bisect_left(range(count), first_step, key=step) - 1)
        end = min(count, bisect_right(range(count), last_step, key=step) + 1)
        level = _level(end - covered, most)
        covered -= covered % FACTOR**level
        blocks = NO_BLOCKS
        for finer in range(level, -1, -1):
            size = FACTOR**finer
            found = read_blocks(self._connection, id, finer, covered // size, end // size)
            blocks = concatenate(blocks, found)
            covered += len(found.step) * size
        curve = Curve(*zigzag(blocks), covered) if level else _curve(blocks, covered)
        return curve, not level

    def batches(self, series: str, size: int = 50_000) -> Iterator[Curve]:
        """Every point of a series, some at a time."""
        id, count = self._find(series)
        for first in range(0, count, size):
            blocks = read_blocks(self._connection, id, 0, first, first + size)
            yield _curve(blocks, first + len(blocks.step))

    def points_after(self, series: str, count: int) -> Curve:
        """The points of a series after its first `count`."""
        id, _ = self._find(series)
        return self._exact(id, count)

    def _exact(self, id: int, first: int) -> Curve:
        blocks: Blocks = read_blocks(self._connection, id, 0, first)
        return _curve(blocks, first + len(blocks.step))

    def _find(self, series: str) -> tuple[int, int]:
        row = self._connection.execute(
            "SELECT id, count FROM series WHERE name = ?", (series,)
        ).fetchone()
        return row or (-1, 0)


def _curve(points: Blocks, count: int) -> Curve:
    return Curve(points.step, points.time, points.low, count)


def _level(count: int, most: int) -> int:
    """The finest level that shows `count` points in at most `most`; 0 for the points themselves."""
    if count <= most:
        return 0
    level = 1
    while 2 * (count // FACTOR**level) > most:
        level += 1
    return level


LARGEST = sys.float_info.max
"""Beyond it is infinity."""

NO_BLOCKS = Blocks(*[np.empty(0)] * 4)

EMPTY = Curve(np.empty(0), np.empty(0), np.empty(0), 0)
"""A curve without points."""
