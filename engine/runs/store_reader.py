"""Reads the store of a live or ended run, from any process. `engine.runs.store` writes it."""

from __future__ import annotations

import math
import sqlite3
import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import NamedTuple, ParamSpec, Self, TypeVar

import msgspec
import numpy as np

from engine.files.sqlite_file import Patience, check_schema, open_readonly
from engine.messages.events import Event
from engine.runs.downsampling import FACTOR, Array, Blocks, BlockStatistics, concatenate, zigzag
from engine.runs.point_tables import read_blocks
from engine.runs.run_state import RunStatus
from engine.runs.store import FILE_NAME, decode_event, read_format, read_kept_files
from engine.spec.recipe_copy import KeptFile

LONGEST_READ = 10.0
"""Seconds of computing time for one method; a curve of ten million points takes 0.01 s."""

LARGEST_STATUS = 4 * 2**20
"""Bytes of the newest status; with 2,000 series it has 100 KiB."""

MOST_SERIES = 50_000
MOST_EVENTS = 100_000
"""Events that one call returns."""

MOST_GAPS = 1000
"""Largest number of points without a finite value in a curve of blocks."""

_decode_status = msgspec.msgpack.Decoder(RunStatus).decode

_Arguments = ParamSpec("_Arguments")
_Result = TypeVar("_Result")


def _reports_damage(method: Callable[_Arguments, _Result]) -> Callable[_Arguments, _Result]:
    """Make `method` raise sqlite3.DatabaseError for every effect of a damaged file.

    SQLite does not detect all damage: a column may contain text instead of a number, and the
    message about a broken schema may not be valid UTF-8.
    """

    @wraps(method)
    def read(*args: _Arguments.args, **options: _Arguments.kwargs) -> _Result:
        try:
            return method(*args, **options)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise sqlite3.DatabaseError(f"it holds invalid data ({error})") from error
        except sqlite3.OperationalError as error:
            if str(error) == "interrupted":
                raise sqlite3.DatabaseError("it takes too long to read") from error
            raise

    return read


class StoredEvent(NamedTuple):
    """An event with its number and its time."""

    seq: int
    time: float
    """When it arrived at the supervisor (seconds since the epoch)."""

    event: Event


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


class RunReader:
    """Read-only view of one run's store. Every method raises sqlite3.Error on a damaged file.

    So it does if the file was made to run for ever or to fill the memory. A method may take
    `seconds` of computing time.
    """

    @_reports_damage
    def __init__(self, folder: Path, seconds: float = LONGEST_READ) -> None:
        """Open the store. Raises sqlite3.OperationalError if there is none yet."""
        self._connection = open_readonly(folder / FILE_NAME)
        self._seconds = seconds
        self._patience = Patience(self._connection)
        self._patience.allow(seconds)
        try:
            check_schema(self._connection)
            self._format = read_format(self._connection)
            self._connection.execute("SELECT generation FROM status").fetchone()
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @_reports_damage
    def status(self) -> RunStatus:
        """Return the newest status that the supervisor wrote.

        `engine.runs.run_info.state_of` checks whether the supervisor is still alive.
        """
        row = self._query(
            "SELECT length(body), CASE WHEN length(body) <= ? THEN body END FROM status",
            (LARGEST_STATUS,),
        ).fetchone()
        if row and row[0] > LARGEST_STATUS:
            raise ValueError(f"a status of {row[0]:,} bytes")
        return _decode_status(row[1]) if row else RunStatus()

    @_reports_damage
    def kept_files(self) -> list[KeptFile]:
        """Return the copies of the run's files, by attempt."""
        self._patience.allow(self._seconds)
        return read_kept_files(self._connection)

    @_reports_damage
    def generation(self) -> int:
        """Return a number that increases when points are deleted: then read every curve again."""
        row = self._query("SELECT generation FROM status").fetchone()
        return int(row[0]) if row else 0

    @_reports_damage
    def events_after(self, seq: int) -> list[StoredEvent]:
        """Return the events after number `seq` (0 for all), oldest first, at most MOST_EVENTS."""
        rows = self._query(
            "SELECT seq, time, body FROM event WHERE seq > ? ORDER BY seq LIMIT ?",
            (seq, MOST_EVENTS),
        )
        return [self._stored_event(*row) for row in rows]

    @_reports_damage
    def newest_event(self, is_wanted: Callable[[Event], bool]) -> StoredEvent | None:
        """Return the newest event for which `is_wanted`; None if there is none."""
        rows = self._query("SELECT seq, time, body FROM event ORDER BY seq DESC")
        found = (self._stored_event(*row) for row in rows)
        return next((stored for stored in found if is_wanted(stored.event)), None)

    @_reports_damage
    def last_seq(self) -> int:
        """Return the number of the newest event; 0 before the first."""
        row = self._query("SELECT coalesce(max(seq), 0) FROM event").fetchone()
        return int(row[0])

    @_reports_damage
    def counts(self) -> dict[str, int]:
        """Return the number of points of every series."""
        rows = self._query("SELECT name, count FROM series LIMIT ?", (MOST_SERIES + 1,)).fetchall()
        if len(rows) > MOST_SERIES:
            raise ValueError(f"more than {MOST_SERIES:,} series")
        return {str(name): int(count) for name, count in rows}

    @_reports_damage
    def best(self, series: str, *, lowest: bool) -> tuple[float, int] | None:
        """Return the lowest or highest finite value and its first step; None if there is none.

        This reads every point, so use it for series with one point per epoch.
        """
        id, _ = self._find(series)
        order = "value" if lowest else "value DESC"
        row = self._query(
            "SELECT value, step FROM point WHERE series = ? AND value BETWEEN ? AND ? "
            f"ORDER BY {order}, i LIMIT 1",
            (id, -LARGEST, LARGEST),
        ).fetchone()
        return (float(row[0]), int(row[1])) if row else None

    @_reports_damage
    def history(self, series: str, most: int = 20_000) -> StoredPoints:
        """Return a whole series in about `most` points; no points if the series is unknown.

        A longer series is returned as the lowest and highest value of each block, and the positions
        of NaN and infinity; a shorter one is exact.
        """
        id, count = self._find(series)
        if count <= most:
            return self._exact(id, 0)
        level = _level(count, most)
        parts, covered = [], 0
        for finer in range(level, -1, -1):
            size = FACTOR**finer
            rest = read_blocks(self._connection, id, finer, covered // size)
            if finer:  # finer levels follow, down to single points for the newest points
                rest = Blocks(*(column[:-1] for column in rest))
            parts.append((rest, size))
            covered += len(rest.step) * size
        return self._with_gaps(id, _zigzag(parts, covered))

    @_reports_damage
    def window(
        self, series: str, first_step: float, last_step: float, most: int = 20_000
    ) -> StoredPoints:
        """Return the points between two steps, and one more on each side, as `history` does.

        The result is exact if there are at most `most` points.
        """
        id, count = self._find(series)

        def step(place: int) -> float:
            row = self._connection.execute(
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
            blocks = read_blocks(self._connection, id, finer, covered // size, end // size)
            parts.append((blocks, size))
            covered += len(blocks.step) * size
        if not level:
            return _curve(blocks, covered)
        return self._with_gaps(id, _zigzag(parts, covered), begin)

    def batches(self, series: str, size: int = 50_000) -> Iterator[StoredPoints]:
        """Yield every point of a series, `size` at a time."""
        id, count = self._find(series)
        for first in range(0, count, size):
            self._patience.allow(self._seconds)
            blocks = read_blocks(self._connection, id, 0, first, first + size)
            if not len(blocks.step):
                return  # the number of points is wrong
            yield _curve(blocks, first + len(blocks.step))

    @_reports_damage
    def points_after(self, series: str, count: int) -> StoredPoints:
        """Return the points of a series after its first `count`; `batches` reads long ones whole.

        They are at most MOST_ROWS: the `count` of the result tells from where to read on.
        """
        id, _ = self._find(series)
        return self._exact(id, count)

    @_reports_damage
    def overview_after(self, series: str, count: int) -> StoredPoints:
        """Return the points after the first `count` as lows and highs of blocks of 16 points.

        The next call returns the points after the last complete block.
        """
        id, _ = self._find(series)
        first = -(-count // FACTOR)
        single = read_blocks(self._connection, id, 0, count, first * FACTOR)
        whole = read_blocks(self._connection, id, 1, first)
        covered = count + len(single.step) + len(whole.step) * FACTOR
        return self._with_gaps(id, _zigzag([(single, 1), (whole, FACTOR)], covered), count)

    def _exact(self, id: int, first: int) -> StoredPoints:
        blocks: Blocks = read_blocks(self._connection, id, 0, first)
        return _curve(blocks, first + len(blocks.step))

    def _with_gaps(self, id: int, curve: StoredPoints, first: int = 0) -> StoredPoints:
        """Add the first MOST_GAPS points that are NaN or infinite to a curve of blocks.

        `curve` begins with point number `first`. The condition matches the index `not_finite`; with
        the plus signs SQLite uses this index.
        """
        rows = self._connection.execute(
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

    def _query(self, sql: str, values: Sequence[float | str] = ()) -> sqlite3.Cursor:
        """Begin a query, and with it the time that the method may take."""
        self._patience.allow(self._seconds)
        return self._connection.execute(sql, values)

    def _stored_event(self, seq: int, time: float, body: bytes) -> StoredEvent:
        return StoredEvent(int(seq), float(time), decode_event(body, self._format))

    def _find(self, series: str) -> tuple[int, int]:
        row = self._query("SELECT id, count FROM series WHERE name = ?", (series,)).fetchone()
        return row or (-1, 0)


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


LARGEST = sys.float_info.max
"""The largest finite double."""
