"""Batches of points that wait are merged here; every point keeps its value and its time."""

from __future__ import annotations

import math
from array import array
from typing import NamedTuple

from engine.messages.events import Metrics, Points

MOST_MERGED = 2000
"""Points that are merged into one event: a supervisor stores them in milliseconds."""

LEAST_OF_SERIES = 16
"""Points of each series in a merged event, even if there are many series."""

LARGEST_STEP = 2**63 - 1
"""The largest integer that SQLite can store."""


class _Columns(NamedTuple):
    """The points of one series."""

    steps: array[int]
    values: array[float]
    times: array[float]


class MergedMetrics:
    """The points of neighbouring `Metrics`, at 24 bytes a point; not for several threads."""

    def __init__(self) -> None:
        self._series: dict[str, _Columns] = {}
        self._begin = self._end = 0.0
        self.count = 0
        """Points of all series."""

    def add(self, event: Metrics) -> bool:
        """Add the points of `event`. Return False if they are too many, or cannot be stored."""
        size = count_points(event)
        most = max(MOST_MERGED, LEAST_OF_SERIES * len(self._series))
        if self.count and self.count + size > most:
            return False
        try:
            if not is_storable(event):
                return False
            added = [(points.series, _columns(points, event)) for points in event.points]
        except (TypeError, OverflowError):
            return False
        for name, new in added:
            known = self._series.setdefault(name, new)
            if known is not new:
                known.steps.extend(new.steps)
                known.values.extend(new.values)
                known.times.extend(new.times)
        if not self.count:
            self._begin = event.begin
        self._end = event.end
        self.count += size
        return True

    def event(self) -> Metrics:
        """Return one event with all points and the time of each."""
        points = [
            Points(name, columns.steps.tolist(), columns.values.tolist(), columns.times.tolist())
            for name, columns in self._series.items()
        ]
        return Metrics(self._begin, self._end, points)


def count_points(event: object) -> int:
    """Return the number of points that wait in `event`, which may be of any type."""
    match event:
        case MergedMetrics():
            return event.count
        case Metrics(points=points):
            return sum(len(series.steps) for series in points)
        case _:
            return 0


def is_storable(event: Metrics) -> bool:
    """Return whether the store can hold the points: a recipe can make any."""
    return math.isfinite(event.begin) and math.isfinite(event.end) and all(map(_fit, event.points))


def _fit(points: Points) -> bool:
    steps, times = points.steps, points.times
    if len(steps) != len(points.values) or (times and len(times) != len(steps)):
        return False
    if not all(map(math.isfinite, times)):
        return False
    return not steps or (min(steps) >= 0 and max(steps) <= LARGEST_STEP)


def _columns(points: Points, event: Metrics) -> _Columns:
    times = points.times or _spread(len(points.steps), event.begin, event.end)
    return _Columns(array("q", points.steps), array("d", points.values), array("d", times))


def _spread(count: int, begin: float, end: float) -> list[float]:
    """Return the times that `PointTables` gives to points without any: to the last bit."""
    if not count:
        return []
    each = (end - begin) / count
    return [*(number * each + begin for number in range(1, count)), end]
