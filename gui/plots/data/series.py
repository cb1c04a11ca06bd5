"""The points of one curve: appended in batches, read back decimated for a zoom, raw or smoothed."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from engine.runs.downsampling import BlockStatistics
from engine.runs.store_reader import StoredPoints
from gui.plots.data.best_point import BestPoint, find_best
from gui.plots.data.growing_pyramid import Array, GrowingArray, Pyramid, highest, lowest, mean
from gui.plots.data.smoothing import MovingAverage
from gui.plots.data.x_axis import XKind, XScale

SMOOTHED_PER_FRAME = 200_000
"""Points whose smoothed values are worked out before a frame is painted; the rest follows with the
next frames, so that no move of the slider stops the window."""


MAX_DRAWABLE = 1e300
"""Values beyond have distances that no double holds: they are a gap, as infinity is."""


class Series:
    """Values over ascending steps and times. NaN, and infinity on screen, is a gap."""

    def __init__(self) -> None:
        self._smoothing = 0.0
        self._scale = XScale()
        self.clear()

    def __len__(self) -> int:
        return len(self._steps)

    def clear(self) -> None:
        """Forget every point; the smoothing stays."""
        self._steps, self._times = GrowingArray(), GrowingArray()
        self._gaps = GrowingArray()
        self._x = self._places()
        self._breaks = self._scale.breaks(self._times.values)
        self._raw = Pyramid(lowest, highest)
        self._statistics: list[tuple[int, BlockStatistics]] = []
        self._low = self._high = self._low_positive = math.nan
        self.last = math.nan
        """The newest value as it came; NaN where there is none."""

        self._forget_smoothed()

    def extend(
        self,
        steps: Array | Sequence[float],
        values: Array | Sequence[float],
        times: Array | None = None,
        statistics: BlockStatistics | None = None,
    ) -> None:
        """Append equally many steps, values and times (seconds since the epoch).

        Without times the points are not seen on an axis of time. `statistics` describes the blocks
        of steps that they stand for, where they are no single points; these means are smoothed.
        Points before the last one are drawn where they are, but a zoom may miss them: replace the
        series when a run goes back.
        """
        values = np.asarray(values, dtype=np.float64)
        if not len(values):
            return
        steps = np.asarray(steps, dtype=np.float64)
        finite = _drawable(values)
        times = np.full(len(steps), np.nan) if times is None else np.asarray(times)
        # A clock that was set back must not fold the curve over itself.
        newest = self._times.values[-1:]
        times = np.fmax.accumulate(np.concatenate((newest, times)))[len(newest) :]
        self._gaps.extend(np.float64(len(self)) + np.flatnonzero(np.isnan(finite)))
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
        self.last = float(values[-1])

    @property
    def smoothing(self) -> float:
        """Weight that the past keeps from one value to the next; 0 for none."""
        return self._smoothing

    def set_smoothing(self, smoothing: float) -> None:
        """Set the smoothing, 0 to 0.999; worked out when a smoothed view is asked for."""
        if smoothing != self._smoothing:
            self._smoothing = smoothing
            self._forget_smoothed()

    @property
    def is_smoothed(self) -> bool:
        """Whether every point has its smoothed value; else asking for a view brings some more."""
        return not self._smoothing or len(self._smoothed) == len(self)

    def bounds(self, *, positive: bool = False) -> tuple[float, float] | None:
        """Lowest and highest finite value (above 0 if `positive`), or None without any."""
        low = self._low_positive if positive else self._low
        return None if math.isnan(low) else (low, self._high)

    def best(self, sign: int) -> BestPoint | None:
        """The first point that no other is better than; what `sign` means stands in `find_best`."""
        points = StoredPoints(self._steps.values, self._times.values, self._raw.values, len(self))
        return find_best(None, sign, points)

    def set_x_scale(self, scale: XScale) -> None:
        """Place the points on another horizontal axis."""
        self._scale = scale
        self._x = self._places()
        self._breaks = scale.breaks(self._times.values)

    def x_range(self) -> tuple[float, float] | None:
        """Places of the first and the last point; None without any."""
        xs = self._x.values
        return (
            (float(xs[0]), float(xs[-1])) if len(xs) and not np.isnan(xs[[0, -1]]).any() else None
        )

    def count_between(self, x0: float, x1: float) -> int:
        """How many points a view of `x0` to `x1` has to draw from."""
        first, last = self._range(x0, x1)
        return max(last - first, 0)

    def steps_between(self, x0: float, x1: float) -> tuple[float, float]:
        """Steps of the first and last point of a view of `x0` to `x1`; needs points."""
        first, last = self._range(x0, x1)
        steps = self._steps.values
        return float(steps[min(first, len(steps) - 1)]), float(steps[max(last - 1, 0)])

    def place_beyond(self, x: float, way: int, least: float) -> float:
        """The place of the next point after `x` (`way` 1) or before it (-1) that is `least` away or
        more; NaN where there is none."""
        xs = self._x.values
        # Beside seconds since the epoch a pixel may be lost in rounding: hence both.
        if way > 0:
            index = max(np.searchsorted(xs, x, "right"), np.searchsorted(xs, x + least, "left"))
        else:
            both = np.searchsorted(xs, x, "left"), np.searchsorted(xs, x - least, "right")
            index = min(both) - 1
        return float(xs[index]) if 0 <= index < len(xs) else math.nan

    def step_at(self, x: float) -> float:
        """The step of the point nearest to `x`; NaN outside of the curve."""
        index = self._nearest(x)
        return math.nan if index is None else float(self._steps.values[index])

    def step_when(self, time: float) -> float:
        """The step that training stood at, about, at `time`; NaN without points."""
        if not len(self):
            return math.nan
        return float(np.interp(time, self._times.values, self._steps.values))

    def view(self, x0: float, x1: float, pixels: int) -> tuple[Array, Array]:
        """What to draw between the places `x0` and `x1` on `pixels` pixels: the points themselves
        and one to each side, or lowest and highest value of about `pixels` columns."""
        first, last = self._range(x0, x1)
        places, values = self._x.values, self._raw.values
        if last - first < 4 * pixels:
            return self._torn(places[first:last], values[first:last], first)
        start, size, (low, high) = self._raw.columns(first, last, pixels)
        rest = start + size * len(low)
        xs = places[start:last:size]
        if rest < last:
            low = np.append(low, np.fmin.reduce(values[rest:last]))
            high = np.append(high, np.fmax.reduce(values[rest:last]))
        both = np.column_stack((low, high)).ravel()
        return self._torn(np.repeat(xs, 2), both, start, size, corners=2)

    def smoothed_view(self, x0: float, x1: float, pixels: int) -> tuple[Array, Array]:
        """The same for the smoothed curve, with the mean of each column and the newest point."""
        self._catch_up()
        first, last = self._range(x0, x1)
        places, values = self._x.values, self._smoothed.values
        last = min(last, len(values))
        if last <= first:
            return np.empty(0), np.empty(0)
        if last - first < 4 * pixels:
            return self._torn(places[first:last], values[first:last], first)
        start, size, (middle,) = self._smoothed.columns(first, last, pixels // 2)
        # A column's mean belongs to its middle: at its beginning it would run ahead of the points.
        xs = places[start + size // 2 : start + size * len(middle) : size]
        xs, ys = np.append(xs, places[last - 1]), np.append(middle, values[last - 1])
        return self._torn(xs, ys, start + size // 2, size)

    def gaps(self, x0: float, x1: float, pixels: int) -> Array:
        """Places between `x0` and `x1` whose values are NaN or infinite, one per pixel at most."""
        places = self._x.values[self._gaps.values.astype(np.intp)]
        first = np.searchsorted(places, np.linspace(x0, x1, pixels + 1))
        first[-1] = np.searchsorted(places, x1, "right")
        return places[first[:-1][np.diff(first) > 0]]

    def gap_starts(self) -> Array:
        """Places where the values begin to be NaN or infinite."""
        gaps = self._gaps.values.astype(np.intp)
        return self._x.values[gaps[np.diff(gaps, prepend=-2) > 1]]

    def value_at(self, x: float, *, smoothed: bool = False) -> float:
        """The value at the point nearest to `x`; NaN outside of the curve."""
        index = self._nearest(x)
        if index is None:
            return math.nan
        if smoothed:
            self._catch_up()
            if index < len(self._smoothed):
                return float(self._smoothed.values[index])
        return float(self._raw.values[index])

    def _torn(
        self, xs: Array, ys: Array, first: int, size: int = 1, corners: int = 1
    ) -> tuple[Array, Array]:
        """The line through `xs` and `ys` with a gap wherever the run was down. It begins at point
        number `first`; `corners` of it stand for `size` points."""
        end = first + size * len(xs) // corners
        breaks = self._breaks[(self._breaks > first) & (self._breaks < end)]
        if not len(breaks):
            return xs, ys
        places = np.minimum(-(-(breaks - first) // size) * corners, len(xs) - corners)
        return np.insert(xs, places, xs[places]), np.insert(ys, places, np.nan)

    def _nearest(self, x: float) -> int | None:
        xs = self._x.values
        if not len(xs) or not xs[0] <= x <= xs[-1]:
            return None
        after = int(np.searchsorted(xs, x))
        before = max(after - 1, 0)
        return before if x - xs[before] < xs[after] - x else after

    def _range(self, x0: float, x1: float) -> tuple[int, int]:
        xs = self._x.values
        first = int(np.searchsorted(xs, x0, "left")) - 1
        last = int(np.searchsorted(xs, x1, "right")) + 1
        return max(first, 0), min(last, len(xs))

    def _places(self) -> GrowingArray:
        if self._scale.kind is XKind.STEP:
            return self._steps
        places = GrowingArray()
        places.extend(self._scale.x(self._steps.values, self._times.values))
        return places

    def _forget_smoothed(self) -> None:
        self._average = MovingAverage(self._smoothing)
        self._smoothed = Pyramid(mean)

    def _catch_up(self) -> None:
        done = len(self._smoothed)
        for values, size in self._pieces(done, min(done + SMOOTHED_PER_FRAME, len(self))):
            self._smoothed.extend(self._average.extend(values, size))

    def _pieces(self, begin: int, end: int) -> Iterator[tuple[Array, float]]:
        """What the points from number `begin` to `end` (exclusive) stand for, in pieces of equally
        many steps a point."""
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
