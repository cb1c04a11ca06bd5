"""Follows the store of a run, live or finished: each call returns what is new since the last."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from engine.runs.downsampling import FACTOR
from engine.runs.run_state import RunStatus
from engine.runs.store import FILE_NAME
from engine.runs.store_reader import RunReader, StoredEvent, StoredPoints

MOST_AT_ONCE = 2000
"""New points of all series together that are read one by one; more are read as blocks, so that a
frame of the window does not wait for them."""

SERIES_AT_ONCE = 4
"""Series that one call reads while so many points come in: the series take turns. The first call
reads all of them, because some curves without the others would be misleading."""

LONGEST_ADDITION = 50_000
"""With more new points than this, the whole curve is read again, as one of coarser blocks."""

MOST_SHOWN = 50_000
"""Points of a series that were added one by one; then it is read as a curve of blocks once more, so
that a window that is open for days holds 2 to 4 MiB of each series at the most. One series per
call, because reading takes milliseconds."""


class CurveUpdate(NamedTuple):
    """New points of one series."""

    series: str
    points: StoredPoints
    replaces: bool
    """Whether these points replace all earlier ones; else they are appended."""


class StoreFollower:
    """Remembers the last event and the number of points that were read. For one thread."""

    def __init__(self, folder: Path, *, after: int = 0) -> None:
        """Follow the run in `folder`, whose store may not exist yet; skip its events up to number
        `after`."""
        self.reader: RunReader | None = None
        self._folder = folder
        self._last_seq = after
        self._generation = -1
        self._counts: dict[str, int] = {}
        self._shown: dict[str, int] = {}

    def open(self) -> bool:
        """Open the store if that is possible by now, and return whether it is open.

        Raises sqlite3.Error.
        """
        if self.reader is None and (self._folder / FILE_NAME).exists():
            self.reader = RunReader(self._folder)
        return self.reader is not None

    def close(self) -> None:
        """Close the store; after another `open` the next call continues from here."""
        if self.reader is not None:
            self.reader.close()
            self.reader = None

    def status(self) -> RunStatus:
        """Return the newest status; an empty one while there is no store. Raises sqlite3.Error.

        Read it before events and curves: then all that led to this status is among them.
        """
        return self.reader.status() if self.reader else RunStatus()

    def new_events(self) -> list[StoredEvent]:
        """Return the events since the last call, oldest first. Raises sqlite3.Error."""
        events = self.reader.events_after(self._last_seq) if self.reader else []
        if events:
            self._last_seq = events[-1].seq
        return events

    def new_curves(
        self, is_wanted: Callable[[str], bool] = lambda series: True, *, to_the_end: bool = False
    ) -> Iterator[CurveUpdate]:
        """Yield what is new of the series that are wanted. Raises sqlite3.Error.

        When points come in faster than they can be shown, some are left for the next call, unless
        `to_the_end`: then every point is read.
        """
        reader = self.reader
        if reader is None:
            return
        generation = reader.generation()
        if generation != self._generation:
            self._counts.clear()
        self._generation = generation
        counts = {name: n for name, n in reader.counts().items() if is_wanted(name)}
        unread = sum(counts.values()) - sum(self._counts.values())
        is_flood, shortened = unread > MOST_AT_ONCE and not to_the_end, False
        turns = SERIES_AT_ONCE if is_flood and self._counts else len(counts)
        for series in [*(name for name in counts if name not in self._counts), *self._counts]:
            if not turns:
                break
            known = self._counts.get(series, 0)
            new, shown = counts.get(series, 0) - known, self._shown.get(series, 0)
            read_whole = series not in self._counts or new > LONGEST_ADDITION
            if not read_whole and new and shown + new > MOST_SHOWN and not shortened:
                read_whole = shortened = True
            if read_whole:
                points, shown = reader.history(series), 0
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
