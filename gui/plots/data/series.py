"""The points of one curve: appended in batches, read decimated for a zoom, raw or smoothed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from engine.runs.store.downsampling import BlockStatistics
from engine.runs.store.stored_points import StoredPoints
from gui.plots.data.best_point import BestPoint, find_best
from gui.plots.data.growing_pyramid import (
    FACTOR,
    Array,
    GrowingArray,
    Pyramid,
    highest,
    lowest,
    mean,
)
from gui.plots.data.smoothing import MovingAverage
from gui.plots.data.x_axis import XKind, XScale

SMOOTHED_PER_FRAME = 200_000
"""Points that are smoothed before a frame is painted. The next frames smooth the rest, so that
moving the slider never blocks the window."""


_POINTS_PER_COLUMN = 4
"""Points in a column of pixels of which only the lowest and the highest one are drawn."""

_FEW_GAPS = 1000
"""Points after a block among which the next one is sought: there may be gaps between."""

_SMOOTHED_COLUMN = 3
"""Width (pixels) of the widest column of the smoothed line, whose pen is two or more wide: narrower
columns could not be seen."""

MAX_DRAWABLE = 1e300
"""Larger values are drawn as a gap, like infinity: the distance between them overflows float64."""


class PointReading(NamedTuple):
    """The point of a curve that is nearest to a position."""

    x: float
    step: float
    low: float
    """Its value; NaN where it is no number."""

    high: float
    """More than `low` where the point stands for a block of points: their highest value, `low` is
    the lowest one."""

    smoothed: float = math.nan
    """The moving average there; NaN: the curve is not smoothed, or not there yet."""

    last_step: float = math.nan
    """The last step that the values may be of, where the point stands for a block of points; NaN:
    it is a single one."""


class Series:
    """Values over ascending steps and times. NaN is a gap; infinity is drawn as one."""

    def __init__(self) -> None:
        self._smoothing = 0.0
        self._scale = XScale()
        self.clear()

    def __len__(self) -> int:
        return len(self._steps)

    def clear(self) -> None:
        """Delete all points; the smoothing stays."""
        self._steps, self._times = GrowingArray(), GrowingArray()
        self._gaps = GrowingArray()
        self._undrawable: dict[int, float] = {}
        """Infinite and too large values, by the number of their point."""

        self._x = self._positions()
        self._breaks = self._scale.breaks(self._times.values)
        self._raw = Pyramid(lowest, highest)
        self._statistics: list[tuple[int, BlockStatistics]] = []
        self._low = self._high = self._low_positive = math.nan
        self.not_positive = 0
        """How many of the points have a finite value of 0 or below: a logarithmic axis has no place
        for them. Of a block, its lowest and its highest value count."""

        self.last = math.nan
        """The newest value, unchanged; NaN without points."""

        self._reset_smoothed()

    def extend(
        self,
        steps: Array | Sequence[float],
        values: Array | Sequence[float],
        times: Array | None = None,
        statistics: BlockStatistics | None = None,
    ) -> None:
        """Append points in place: steps, values and times (seconds since the epoch), each float64
        of shape (n,).

        Points without times are not shown on a time axis. `statistics` describes the blocks of
        steps that the points stand for, if they are not single steps; then the smoothing uses the
        means of the blocks. Points before the last one are drawn, but a zoom may miss them: replace
        the series when a run is rewound.
        """
        values = np.asarray(values, dtype=np.float64)
        if not len(values):
            return
        steps = np.asarray(steps, dtype=np.float64)
        finite = _drawable(values)
        times = np.full(len(steps), np.nan) if times is None else np.asarray(times)
        # If the clock was set back, the curve must not go backwards.
        newest = self._times.values[-1:]
        times = np.fmax.accumulate(np.concatenate((newest, times)))[len(newest) :]
        self._gaps.extend(np.float64(len(self)) + np.flatnonzero(np.isnan(finite)))
        for place in np.flatnonzero(np.isnan(finite) & ~np.isnan(values)).tolist():
            self._undrawable[len(self) + place] = float(values[place])
        if statistics is not None:
            self._statistics.append(
                (len(self), statistics._replace(mean=_drawable(statistics.mean)))
            )
        self._steps.extend(steps)
        self._times.extend(times)
        if self._x is not self._steps:
            self._x.extend(self._scale.x(steps, times))
        self._breaks = self._scale.breaks(self._times.values)
        self._raw.extend(finite)
        self._low = float(np.fmin(self._low, np.fmin.reduce(finite)))
        self._high = float(np.fmax(self._high, np.fmax.reduce(finite)))
        positive = np.where(finite > 0, finite, np.nan)
        self._low_positive = float(np.fmin(self._low_positive, np.fmin.reduce(positive)))
        self.not_positive += int(np.count_nonzero(finite <= 0))
        self.last = float(values[-1])

    @property
    def not_finite(self) -> int:
        """How many of the points are NaN, infinite, or too large to be drawn."""
        return len(self._gaps)

    @property
    def coarse_count(self) -> int:
        """The number of points, from the beginning, that stand for blocks of steps, or precede
        such points."""
        if not self._statistics:
            return 0
        first, statistics = self._statistics[-1]
        return first + len(statistics.mean)

    @property
    def smoothing(self) -> float:
        """Weight of the past in the moving average; 0: no smoothing."""
        return self._smoothing

    def set_smoothing(self, smoothing: float) -> None:
        """Set the smoothing, 0 to 0.999. It is computed when a smoothed view is needed."""
        if smoothing != self._smoothing:
            self._smoothing = smoothing
            self._reset_smoothed()

    @property
    def is_smoothed(self) -> bool:
        """Whether all smoothed values have been computed; if not, each `smoothed_view` computes
        more."""
        return not self._smoothing or len(self._smoothed) == len(self)

    def bounds(self, *, positive: bool = False) -> tuple[float, float] | None:
        """Return the lowest and the highest finite value (above 0 if `positive`), or None without
        any."""
        low = self._low_positive if positive else self._low
        return None if math.isnan(low) else (low, self._high)

    def best(self, sign: int) -> BestPoint | None:
        """Return the first point with the best value; see `find_best` for `sign`."""
        points = StoredPoints(self._steps.values, self._times.values, self._raw.values, len(self))
        return find_best(None, sign, points)

    @property
    def x_scale(self) -> XScale:
        """The horizontal axis on which the points are placed."""
        return self._scale

    def set_x_scale(self, scale: XScale) -> None:
        """Place the points on another horizontal axis."""
        self._scale = scale
        self._x = self._positions()
        self._breaks = scale.breaks(self._times.values)

    def x_range(self) -> tuple[float, float] | None:
        """Return the x positions of the first and the last point; None without points."""
        xs = self._x.values
        return (
            (float(xs[0]), float(xs[-1])) if len(xs) and not np.isnan(xs[[0, -1]]).any() else None
        )

    def count_between(self, x0: float, x1: float) -> int:
        """Return the number of points in a view of `x0` to `x1`, with one more to each side."""
        first, last = self._index_range(x0, x1)
        return max(last - first, 0)

    def steps_between(self, x0: float, x1: float) -> tuple[float, float]:
        """Return the steps of the first and the last point of a view of `x0` to `x1`. Needs
        points."""
        first, last = self._index_range(x0, x1)
        steps = self._steps.values
        return float(steps[min(first, len(steps) - 1)]), float(steps[max(last - 1, 0)])

    def next_position(self, x: float, direction: int, min_distance: float) -> float:
        """Return the x position of the next point after `x` (`direction` 1) or before it (-1) that
        is at least `min_distance` away; NaN if there is none."""
        xs = self._x.values
        # For x in seconds since the epoch, x + min_distance may round to x: hence both searches.
        if direction > 0:
            index = max(
                np.searchsorted(xs, x, "right"), np.searchsorted(xs, x + min_distance, "left")
            )
        else:
            both = np.searchsorted(xs, x, "left"), np.searchsorted(xs, x - min_distance, "right")
            index = min(both) - 1
        return float(xs[index]) if 0 <= index < len(xs) else math.nan

    def step_when(self, time: float) -> float:
        """Return the step, interpolated, that training had reached at `time`; NaN without
        points."""
        if not len(self):
            return math.nan
        return float(np.interp(time, self._times.values, self._steps.values))

    def view(self, x0: float, x1: float, pixels: int) -> tuple[Array, Array]:
        """Return what to draw between the positions `x0` and `x1` on `pixels` pixels, as x and y,
        float64 of shape (n,): the points and one more to each side, or the lowest and the highest
        value of each of about `pixels` columns."""
        first, last = self._index_range(x0, x1)
        positions, values = self._x.values, self._raw.values
        if last - first < _POINTS_PER_COLUMN * pixels:
            return self._with_breaks(positions[first:last], values[first:last], first)
        start, size, (low, high) = self._raw.columns(first, last, pixels)
        rest = start + size * len(low)
        xs = positions[start:last:size]
        if rest < last:
            low = np.append(low, np.fmin.reduce(values[rest:last]))
            high = np.append(high, np.fmax.reduce(values[rest:last]))
        both = np.column_stack((low, high))
        # Every second column begins at the top: from low to high each time, the line would cross
        # every column twice.
        odd = 1 - start // size % 2
        both[odd::2] = both[odd::2, ::-1]
        return self._with_breaks(np.repeat(xs, 2), both.ravel(), start, size, corners=2)

    def smoothed_view(self, x0: float, x1: float, pixels: int) -> tuple[Array, Array]:
        """Return the same for the smoothed curve: the mean of each column, and the newest point."""
        self._smooth_more()
        first, last = self._index_range(x0, x1)
        positions, values = self._x.values, self._smoothed.values
        last = min(last, len(values))
        if last <= first:
            return np.empty(0), np.empty(0)
        least = max(pixels // _SMOOTHED_COLUMN, 1)
        if last - first < FACTOR * least:
            return self._with_breaks(positions[first:last], values[first:last], first)
        start, size, (middle,) = self._smoothed.columns(first, last, least)
        # The mean of a column belongs to its middle: at its beginning the curve would precede the
        # points.
        xs = positions[start + size // 2 : start + size * len(middle) : size]
        xs, ys = np.append(xs, positions[last - 1]), np.append(middle, values[last - 1])
        return self._with_breaks(xs, ys, start + size // 2, size)

    def line(self) -> tuple[Array, Array]:
        """Return all points as a line, x and y, float64 of shape (n,): where points stand for a
        block of steps, the mean of the block. NaN where there is no number, and where the run was
        down."""
        values = self._raw.values
        if self._statistics:
            values = values.copy()
        for first, statistics in self._statistics:
            values[first : first + len(statistics.mean)] = statistics.mean
        xs, ys = self._with_breaks(self._x.values, values, 0)
        known = ~np.isnan(xs)
        return xs[known], ys[known]

    def gaps(self, x0: float, x1: float, pixels: int) -> Array:
        """Return the x positions between `x0` and `x1` whose values are NaN or infinite, at most
        one per pixel, float64 of shape (n,)."""
        positions = self._x.values[self._gaps.values.astype(np.intp)]
        first = np.searchsorted(positions, np.linspace(x0, x1, pixels + 1))
        first[-1] = np.searchsorted(positions, x1, "right")
        return positions[first[:-1][np.diff(first) > 0]]

    def gap_starts(self) -> Array:
        """Return the x positions at which gaps begin, float64 of shape (n,)."""
        gaps = self._gaps.values.astype(np.intp)
        return self._x.values[gaps[np.diff(gaps, prepend=-2) > 1]]

    def point_at(self, x: float, width: float = 0.0) -> PointReading | None:
        """Return the point nearest to `x`; None outside the curve.

        Where a line of this `width` stands for many points, the reading has the lowest and the
        highest value of all that are drawn beside it.
        """
        index = self._nearest(x, width)
        if index is None:
            return None
        point = self._point(index)
        first, last = np.searchsorted(self._x.values, (x - width, x + width))
        if last - first < 2 * _POINTS_PER_COLUMN:
            return point
        values = self._raw.values[first:last]
        low, high = float(np.fmin.reduce(values)), float(np.fmax.reduce(values))
        if math.isnan(low):
            return point
        begin, end = float(self._steps.values[first]), self._last_step(int(last) - 1)
        return point._replace(step=begin, low=low, high=high, last_step=end)

    def newest_point(self) -> PointReading | None:
        """Return the last point, with its value unchanged; None without points."""
        if not len(self):
            return None
        point = self._point(len(self) - 1)
        return point if point.high > point.low else point._replace(low=self.last, high=self.last)

    def _point(self, index: int) -> PointReading:
        step = self._steps.values[index]
        end = math.nan
        low = high = float(self._raw.values[index])
        if not math.isnan(low):
            # The lowest and the highest value of a block have the step at which it begins.
            first = int(np.searchsorted(self._steps.values, step, "left"))
            last = int(np.searchsorted(self._steps.values, step, "right"))
            low = float(np.fmin.reduce(self._raw.values[first:last]))
            high = float(np.fmax.reduce(self._raw.values[first:last]))
            index = last - 1
            if self._block_size(index) > 1:
                end = self._last_step(index)
        else:
            low = high = self._undrawable.get(index, math.nan)
        smoothed = math.nan
        if self._smoothing:
            self._smooth_more()
            if index < len(self._smoothed):
                smoothed = float(self._smoothed.values[index])
        return PointReading(float(self._x.values[index]), float(step), low, high, smoothed, end)

    def _block_size(self, index: int) -> int:
        """Return how many stored points the block has whose lowest or highest value is `index`; 1:
        it is a point."""
        for first, statistics in self._statistics:
            if first <= index < first + len(statistics.size):
                return round(2 * float(statistics.size[index - first]))
        return 1

    def _last_step(self, index: int) -> float:
        """Return the last step that the point `index`, or its block, may be of: a block is known by
        its first step, and ends before the next one."""
        step = float(self._steps.values[index])
        size = self._block_size(index)
        if size == 1:
            return step
        after = int(np.searchsorted(self._steps.values, step, "right"))
        # A value that is no number stands by itself, also within a block.
        known = np.flatnonzero(~np.isnan(self._raw.values[after : after + _FEW_GAPS]))
        if len(known):
            return float(self._steps.values[after + known[0]]) - 1
        return step + size - 1

    def _with_breaks(
        self, xs: Array, ys: Array, first: int, size: int = 1, corners: int = 1
    ) -> tuple[Array, Array]:
        """Insert a gap into the line `xs`, `ys` wherever the run was down. The line begins at point
        `first`; every `corners` of its vertices stand for `size` points."""
        end = first + size * len(xs) // corners
        breaks = self._breaks[(self._breaks > first) & (self._breaks < end)]
        if not len(breaks):
            return xs, ys
        positions = np.minimum(-(-(breaks - first) // size) * corners, len(xs) - corners)
        return np.insert(xs, positions, xs[positions]), np.insert(ys, positions, np.nan)

    def covers(self, x: float, width: float = 0.0) -> bool:
        """Whether a pointer at `x` is over the curve: it may be half a step, or the `width` of a
        pixel, beside its ends."""
        xs = self._x.values
        beside = max(width, 0.5) if self._scale.kind is XKind.STEP else width
        return bool(len(xs) and xs[0] - beside <= x <= xs[-1] + beside)

    def _nearest(self, x: float, width: float) -> int | None:
        xs = self._x.values
        if not self.covers(x, width):
            return None
        after = min(int(np.searchsorted(xs, x)), len(xs) - 1)
        before = max(after - 1, 0)
        return before if x - xs[before] < xs[after] - x else after

    def _index_range(self, x0: float, x1: float) -> tuple[int, int]:
        xs = self._x.values
        first = int(np.searchsorted(xs, x0, "left")) - 1
        last = int(np.searchsorted(xs, x1, "right")) + 1
        return max(first, 0), min(last, len(xs))

    def _positions(self) -> GrowingArray:
        if self._scale.kind is XKind.STEP:
            return self._steps
        positions = GrowingArray()
        positions.extend(self._scale.x(self._steps.values, self._times.values))
        return positions

    def _reset_smoothed(self) -> None:
        self._average = MovingAverage(self._smoothing)
        self._smoothed = Pyramid(mean)

    def _smooth_more(self) -> None:
        done = len(self._smoothed)
        for values, size in self._segments(done, min(done + SMOOTHED_PER_FRAME, len(self))):
            self._smoothed.extend(self._average.extend(values, size))

    def _segments(self, begin: int, end: int) -> Iterator[tuple[Array, float]]:
        """Yield the values of the points `begin` to `end` (exclusive) with the steps per point, in
        segments of equally many steps per point."""
        for first, statistics in self._statistics:
            last = min(first + len(statistics.mean), end)
            if last <= begin:
                continue
            if first >= end:
                break
            if first > begin:
                yield self._raw.values[begin:first], 1.0
                begin = first
            mean, size = (part[begin - first : last - first] for part in statistics)
            cuts = [0, *(np.flatnonzero(np.diff(size)) + 1).tolist(), len(size)]
            for start, stop in pairwise(cuts):
                yield mean[start:stop], float(size[start])
            begin = last
        if begin < end:
            yield self._raw.values[begin:end], 1.0


def _drawable(values: Array) -> Array:
    drawable: Array = np.where(np.abs(values) <= MAX_DRAWABLE, values, np.nan)
    return drawable
