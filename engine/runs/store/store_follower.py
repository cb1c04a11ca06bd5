"""Follows the store of a live or ended run: each call returns the data since the last call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from engine.runs.run_state import RunStatus
from engine.runs.store.downsampling import FACTOR
from engine.runs.store.run_store import FILE_NAME
from engine.runs.store.store_reader import MOST_EVENTS, NoStoreYet, RunReader, StoredEvent
from engine.runs.store.stored_points import StoredPoints

MOST_AT_ONCE = 2000
"""Largest number of new points, over all series, that are read as points; more are read as blocks,
so that no frame of the window waits."""

SERIES_AT_ONCE = 4
"""Series that one call reads during a flood of points, in turn. The first call reads all series,
because an incomplete set of curves would be misleading."""

LONGEST_ADDITION = 50_000
"""With more new points than this, the whole curve is read again as coarser blocks."""

MOST_SHOWN = 50_000
"""Largest number of points added to a curve; then the series is read again as blocks, so that each
series takes at most 2 to 4 MiB of memory. One series per call, because this takes milliseconds."""


MOST_WHOLE = 20_000
"""Points of a series that is read whole."""


class CurveUpdate(NamedTuple):
    """New points of one series."""

    series: str
    points: StoredPoints
    replaces: bool
    """Whether these points replace all earlier points; else they are appended."""


class StoreCursor(NamedTuple):
    """How far a store was read; another follower of the same run goes on from it."""

    seq: int = 0
    """The number of the last event."""

    generation: int = -1
    """That of the points; with another one, every curve is read again."""

    series: Mapping[str, tuple[int, int]] = MappingProxyType({})
    """By series, the number of points that were read, and the number of those that are shown."""


BEGIN = StoreCursor()


class StoreFollower:
    """Remembers the last event and the number of points that were read. For one thread."""

    def __init__(self, folder: Path, cursor: StoreCursor = BEGIN) -> None:
        """Follow the run in `folder` from `cursor` on. Its store need not exist yet."""
        self.reader: RunReader | None = None
        self.series: tuple[str, ...] = ()
        """All series that there were when curves were read last."""

        self._folder = folder
        self._last_seq, self._generation, series = cursor
        self._counts = {name: count for name, (count, _) in series.items()}
        self._shown = {name: shown for name, (_, shown) in series.items()}

    @property
    def cursor(self) -> StoreCursor:
        """How far this follower has read."""
        series = {name: (count, self._shown[name]) for name, count in self._counts.items()}
        return StoreCursor(self._last_seq, self._generation, series)

    def skip_to(self, seq: int) -> None:
        """Leave out the events up to number `seq`."""
        self._last_seq = seq

    def open(self) -> bool:
        """Open the store if it exists; return whether it is open. Raises sqlite3.Error."""
        if self.reader is None and (self._folder / FILE_NAME).exists():
            with suppress(NoStoreYet):
                self.reader = RunReader(self._folder)
        return self.reader is not None

    def close(self) -> None:
        """Close the store; after the next `open`, reading continues from here."""
        if self.reader is not None:
            self.reader.close()
            self.reader = None

    def at_one_time(self) -> AbstractContextManager[None]:
        """Within it, status, events and curves are those of one time. Raises sqlite3.Error."""
        return self.reader.at_one_time() if self.reader else nullcontext()

    def status(self) -> RunStatus:
        """Return the newest status; an empty one while there is no store. Raises sqlite3.Error.

        Call this before reading events and curves, so that they include this status: within
        `at_one_time` they are of the same time.
        """
        return self.reader.status() if self.reader else RunStatus()

    def new_events(self, most: int = MOST_EVENTS) -> list[StoredEvent]:
        """Return the events since the last call, oldest first, at most `most` of them.

        Raises sqlite3.Error.
        """
        events = self.reader.events_after(self._last_seq, most) if self.reader else []
        if events:
            self._last_seq = events[-1].seq
        return events

    def new_curves(
        self,
        is_wanted: Callable[[str], bool] = lambda series: True,
        *,
        to_the_end: bool = False,
        most: int = MOST_WHOLE,
    ) -> Iterator[CurveUpdate]:
        """Yield the new points of the series for which `is_wanted`. Raises sqlite3.Error.

        During a flood, some points are left for the next call, unless `to_the_end` is true. A
        series that is read whole has about `most` points.
        """
        reader = self.reader
        if reader is None:
            return
        generation = reader.generation()
        if generation != self._generation:
            self._counts.clear()
        self._generation = generation
        all_counts = reader.counts()
        self.series = tuple(all_counts)
        counts = {name: count for name, count in all_counts.items() if is_wanted(name)}
        read = {name: n for name, n in self._counts.items() if name in counts}
        unread = sum(counts.values()) - sum(read.values())
        is_flood, shortened = unread > MOST_AT_ONCE and not to_the_end, False
        turns = SERIES_AT_ONCE if is_flood and read else len(counts)
        for series in [*(name for name in counts if name not in read), *read]:
            if not turns:
                break
            known = read.get(series, 0)
            new, shown = counts[series] - known, self._shown.get(series, 0)
            read_whole = series not in read or new > LONGEST_ADDITION
            if not read_whole and new and shown + new > MOST_SHOWN and not shortened:
                read_whole = shortened = True
            if read_whole:
                points, shown = reader.history(series, most), 0
            elif not new:
                continue
            elif is_flood and new > FACTOR:
                points = reader.overview_after(series, known)
            else:
                points = reader.points_after(series, known)
            turns -= 1
            self._counts.pop(series, None)
            self._counts[series] = points.count
            self._shown[series] = shown + len(points.step)
            yield CurveUpdate(series, points, read_whole)
