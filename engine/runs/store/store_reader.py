"""Reads the store of a live or ended run, from any process; `run_store` writes it.

Curves are read by `stored_points`, which is imported for the first one: the import of NumPy takes
longer than reading the list of runs.
"""

from __future__ import annotations

import contextlib
import math
import sqlite3
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, Self, TypeVar

import msgspec

from engine.files.format_version import UNNUMBERED
from engine.files.sqlite_file import mark_of_rest, open_readonly, open_unwritten
from engine.messages.events import Event
from engine.runs.run_state import RunStatus
from engine.runs.store.run_store import FILE_NAME, decode_event, read_format, read_kept_files
from engine.spec.recipe_copy import KeptFile

if TYPE_CHECKING:
    from engine.runs.store.stored_points import StoredPoints

LARGEST_STATUS = 4 * 2**20
"""Bytes of the newest status; with 2,000 series it has 100 KiB."""

MOST_SERIES = 50_000
MOST_EVENTS = 100_000
"""Events that one call returns."""

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

    return read


class NoStoreYet(sqlite3.OperationalError):
    """The supervisor is creating the store at this moment."""


class StoredEvent(NamedTuple):
    """An event with its number and its time."""

    seq: int
    time: float
    """When it arrived at the supervisor (seconds since the epoch)."""

    event: Event


class RunReader:
    """Read-only view of one run's store. Every method raises sqlite3.Error on a damaged file."""

    @_reports_damage
    def __init__(self, folder: Path, *, at_rest: bool = False) -> None:
        """Open the store. Raises sqlite3.OperationalError if there is none: NoStoreYet if its file
        is there already. `at_rest`: no process writes it; see `read_store`."""
        opened = open_unwritten if at_rest else open_readonly
        self._connection = opened(folder / FILE_NAME)
        try:
            self._format = read_format(self._connection)
            self._check_status()
        except BaseException:
            self._connection.close()
            raise

    def _check_status(self) -> None:
        """Raises sqlite3.OperationalError if there is no status."""
        try:
            self._connection.execute("SELECT generation FROM status").fetchone()
        except sqlite3.OperationalError as error:
            if self._format == UNNUMBERED and "no such table" in str(error):
                raise NoStoreYet("its supervisor is creating it") from error
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @contextlib.contextmanager
    def at_one_time(self) -> Iterator[None]:
        """Within it, all methods read the store as it is now. Keep it short: the log of the
        database grows meanwhile. Raises sqlite3.Error."""
        self._connection.execute("BEGIN")
        try:
            yield
        finally:
            self._connection.rollback()

    @_reports_damage
    def status(self) -> RunStatus:
        """Return the newest status that the supervisor wrote.

        `engine.runs.run_info.state_of` checks whether the supervisor is still alive.
        """
        row = self._connection.execute(
            "SELECT length(body), CASE WHEN length(body) <= ? THEN body END FROM status",
            (LARGEST_STATUS,),
        ).fetchone()
        if row and row[0] > LARGEST_STATUS:
            raise ValueError(f"a status of {row[0]:,} bytes")
        return _decode_status(row[1]) if row else RunStatus()

    @_reports_damage
    def kept_files(self) -> list[KeptFile]:
        """Return the copies of the run's files, by attempt."""
        return read_kept_files(self._connection)

    @_reports_damage
    def generation(self) -> int:
        """Return a number that increases when points are deleted: then read every curve again."""
        row = self._connection.execute("SELECT generation FROM status").fetchone()
        return int(row[0]) if row else 0

    @_reports_damage
    def events_after(self, seq: int, most: int = MOST_EVENTS) -> list[StoredEvent]:
        """Return the events after number `seq` (0 for all), oldest first, at most `most`."""
        rows = self._connection.execute(
            "SELECT seq, time, body FROM event WHERE seq > ? ORDER BY seq LIMIT ?",
            (seq, most),
        )
        return [self._stored_event(*row) for row in rows]

    @_reports_damage
    def newest_event(self, is_wanted: Callable[[Event], bool]) -> StoredEvent | None:
        """Return the newest event for which `is_wanted`; None if there is none."""
        rows = self._connection.execute("SELECT seq, time, body FROM event ORDER BY seq DESC")
        found = (self._stored_event(*row) for row in rows)
        return next((stored for stored in found if is_wanted(stored.event)), None)

    @_reports_damage
    def last_seq(self) -> int:
        """Return the number of the newest event; 0 before the first."""
        row = self._connection.execute("SELECT coalesce(max(seq), 0) FROM event").fetchone()
        return int(row[0])

    @_reports_damage
    def counts(self) -> dict[str, int]:
        """Return the number of points of every series."""
        rows = self._connection.execute(
            "SELECT name, count FROM series LIMIT ?", (MOST_SERIES + 1,)
        ).fetchall()
        if len(rows) > MOST_SERIES:
            raise ValueError(f"more than {MOST_SERIES:,} series")
        return {str(name): int(count) for name, count in rows}

    @_reports_damage
    def newest_values(self) -> dict[str, float]:
        """Return the last value of every series that has one; NaN for what is not a number."""
        rows = self._connection.execute(
            "SELECT name, value FROM series JOIN point ON point.series = series.id "
            "AND point.i = series.count - 1 LIMIT ?",
            (MOST_SERIES,),
        )
        return {str(name): math.nan if value is None else float(value) for name, value in rows}

    @_reports_damage
    def best(self, series: str, *, lowest: bool) -> tuple[float, int] | None:
        """Return the lowest or highest finite value and its first step; None if there is none.

        This reads every point, so use it for series with one point per epoch.
        """
        id, _ = self._find(series)
        return self._best(id, lowest=lowest)

    @_reports_damage
    def best_of_each(
        self, prefix: str, is_lower_better: Callable[[str], bool]
    ) -> dict[str, tuple[float, int]]:
        """Return the best of each series whose name begins with `prefix`, as `best` does."""
        rows = self._connection.execute(
            "SELECT name, id FROM series WHERE substr(name, 1, ?) = ? LIMIT ?",
            (len(prefix), prefix, MOST_SERIES),
        ).fetchall()
        found = {str(name): self._best(id, lowest=is_lower_better(str(name))) for name, id in rows}
        return {name: best for name, best in found.items() if best}

    def _best(self, id: int, *, lowest: bool) -> tuple[float, int] | None:
        order = "value" if lowest else "value DESC"
        row = self._connection.execute(
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
        from engine.runs.store import stored_points

        return stored_points.history(self._connection, *self._find(series), max(1, most))

    @_reports_damage
    def window(
        self, series: str, first_step: float, last_step: float, most: int = 20_000
    ) -> StoredPoints:
        """Return the points between two steps, and one more on each side, as `history` does.

        The result is exact if there are at most `most` points.
        """
        from engine.runs.store import stored_points

        found = self._find(series)
        return stored_points.window(self._connection, *found, first_step, last_step, max(1, most))

    def batches(self, series: str, size: int = 50_000) -> Iterator[StoredPoints]:
        """Yield every point of a series, `size` at a time."""
        from engine.runs.store import stored_points

        id, count = self._find(series)
        for first in range(0, count, size):
            points = stored_points.exact(self._connection, id, first, first + size)
            if not len(points.step):
                return  # the number of points is wrong
            yield points

    @_reports_damage
    def points_after(self, series: str, count: int, most: int = sys.maxsize) -> StoredPoints:
        """Return the points of a series after its first `count`; `batches` reads long ones whole.

        They are at most `most`, and MOST_ROWS: the `count` of the result tells from where to read
        on.
        """
        from engine.runs.store import stored_points

        id, _ = self._find(series)
        return stored_points.exact(self._connection, id, count, min(count + most, sys.maxsize))

    @_reports_damage
    def step_at(self, series: str, place: int) -> int:
        """Return the step of point number `place` of a series, from 0; 0 if there is none."""
        id, _ = self._find(series)
        return int(self._step(id, place, none=0))

    @_reports_damage
    def place_of(self, series: str, step: int) -> int:
        """Return how many points of a series lie before `step`."""
        id, count = self._find(series)
        return bisect_left(range(count), float(step), key=partial(self._step, id))

    @_reports_damage
    def overview_after(self, series: str, count: int) -> StoredPoints:
        """Return the points after the first `count` as lows and highs of blocks of 16 points.

        The next call returns the points after the last complete block.
        """
        from engine.runs.store import stored_points

        id, _ = self._find(series)
        return stored_points.overview_after(self._connection, id, count)

    def _step(self, id: int, place: int, none: float = math.inf) -> float:
        row = self._connection.execute(
            "SELECT step FROM point WHERE series = ? AND i = ?", (id, place)
        ).fetchone()
        return float(row[0]) if row else none

    def _stored_event(self, seq: int, time: float, body: bytes) -> StoredEvent:
        return StoredEvent(int(seq), float(time), decode_event(body, self._format))

    def _find(self, series: str) -> tuple[int, int]:
        row = self._connection.execute(
            "SELECT id, count FROM series WHERE name = ?", (series,)
        ).fetchone()
        return row or (-1, 0)


def read_store(folder: Path, read: Callable[[RunReader], _Result]) -> _Result:
    """Return what `read` finds in the store of a run, in a short time. Raises sqlite3.Error.

    Of a store that no process writes SQLite needs no lock, and leaves no file beside it, of which
    one has 32 KiB.
    """
    store = folder / FILE_NAME
    if mark := mark_of_rest(store):
        with contextlib.suppress(sqlite3.Error):  # the other way says what it is
            with RunReader(folder, at_rest=True) as reader:
                found = read(reader)
            if mark_of_rest(store) == mark:
                return found
    with RunReader(folder) as reader:
        return read(reader)


LARGEST = sys.float_info.max
"""The largest finite double."""
