"""The points of one curve: appended in batches, read back decimated for a zoom, raw or smoothed."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gui.plots.pyramid import Array, GrowingArray, Pyramid, highest, lowest, mean
from gui.plots.smoothing import MovingAverage


class Series:
    """Values over ascending steps. NaN, and infinity on screen, is a gap."""

    def __init__(self) -> None:
        self._smoothing = 0.0
        self.clear()

    def __len__(self) -> int:
        return len(self._steps)

    def clear(self) -> None:
        """Forget every point; the smoothing stays."""
        self._steps = GrowingArray()
        self._gaps = GrowingArray()
        self._raw = Pyramid(lowest, highest)
        self._low = self._high = self._low_positive = math.nan
        self.last = math.nan
        """The newest value as it came; NaN where there is none."""

        self._forget_smoothed()

    def extend(self, steps: Array | Sequence[float], values: Array | Sequence[float]) -> None:
        """Append equally many steps and values. Points before the last one are drawn where they
        are, but a zoom may miss them: replace the series when a run goes back."""
        values = np.asarray(values, dtype=np.float64)
        if not len(values):
            return
        steps = np.asarray(steps, dtype=np.float64)
        finite = np.where(np.isfinite(values), values, np.nan)
        self._steps.extend(steps)
        self._gaps.extend(steps[np.isnan(finite)])
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

    def bounds(self, *, positive: bool = False) -> tuple[float, float] | None:
        """Lowest and highest finite value (above 0 if `positive`), or None without any."""
        low = self._low_positive if positive else self._low
        return None if math.isnan(low) else (low, self._high)

    def steps(self) -> tuple[float, float] | None:
        """First and last step, or None without points."""
        steps = self._steps.values
        return (float(steps[0]), float(steps[-1])) if len(steps) else None

    def view(self, x0: float, x1: float, pixels: int) -> tuple[Array, Array]:
        """What to draw between the steps `x0` and `x1` on `pixels` pixels: the points themselves
        and one to each side, or lowest and highest value of about `pixels` columns."""
        first, last = self._range(x0, x1)
        steps, values = self._steps.values, self._raw.values
        if last - first < 4 * pixels:
            return steps[first:last], values[first:last]
        start, size, (low, high) = self._raw.columns(first, last, pixels)
        rest = start + size * len(low)
        xs = steps[start:last:size]
        if rest < last:
            low = np.append(low, np.fmin.reduce(values[rest:last]))
            high = np.append(high, np.fmax.reduce(values[rest:last]))
        return np.repeat(xs, 2), np.column_stack((low, high)).ravel()

    def smoothed_view(self, x0: float, x1: float, pixels: int) -> tuple[Array, Array]:
        """The same for the smoothed curve, with the mean of each column and the newest point."""
        self._catch_up()
        first, last = self._range(x0, x1)
        steps, values = self._steps.values, self._smoothed.values
        if last - first < 4 * pixels:
            return steps[first:last], values[first:last]
        start, size, (middle,) = self._smoothed.columns(first, last, pixels // 2)
        # A column's mean belongs to its middle: at its beginning it would run ahead of the points.
        xs = steps[start + size // 2 : start + size * len(middle) : size]
        return np.append(xs, steps[last - 1]), np.append(middle, values[last - 1])

    def gaps(self, x0: float, x1: float, pixels: int) -> Array:
        """Steps between `x0` and `x1` whose values are NaN or infinite, one per pixel at most."""
        steps = self._gaps.values
        first = np.searchsorted(steps, np.linspace(x0, x1, pixels + 1))
        first[-1] = np.searchsorted(steps, x1, "right")
        return steps[first[:-1][np.diff(first) > 0]]

    def value_at(self, step: float, *, smoothed: bool = False) -> float:
        """The value at the point nearest to `step`; NaN outside of the curve."""
        steps = self._steps.values
        if not len(steps) or not steps[0] <= step <= steps[-1]:
            return math.nan
        if smoothed:
            self._catch_up()
        after = int(np.searchsorted(steps, step))
        before = max(after - 1, 0)
        index = before if step - steps[before] < steps[after] - step else after
        return float((self._smoothed if smoothed else self._raw).values[index])

    def _range(self, x0: float, x1: float) -> tuple[int, int]:
        steps = self._steps.values
        first = int(np.searchsorted(steps, x0, "left")) - 1
        last = int(np.searchsorted(steps, x1, "right")) + 1
        return max(first, 0), min(last, len(steps))

    def _forget_smoothed(self) -> None:
        self._average = MovingAverage(self._smoothing)
        self._smoothed = Pyramid(mean)

    def _catch_up(self) -> None:
        new = self._raw.values[len(self._smoothed) :]
        if len(new):
            self._smoothed.extend(self._average.extend(new))
