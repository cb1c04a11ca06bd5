"""The curves of one plot in their order, and the properties that they share."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gui.plots.data.best_point import BestMarker
from gui.plots.data.ranges import Range, union
from gui.plots.data.x_axis import XScale
from gui.plots.plot.crosshair import Reading
from gui.plots.plot.curve import Curve
from gui.style.theme import Theme
from gui.style.translation import translate


class CurveSet:
    """Curves by name. `value_format` is a format specification; `unit` follows the value."""

    def __init__(self, value_format: str, unit: str) -> None:
        self._format = value_format
        self._unit = f" {unit}" if unit else ""
        self._curves: dict[str, Curve] = {}
        self._smoothing = 0.0
        self.scale = XScale()
        """The horizontal axis of the curves."""

        self.coloured_best_markers = False
        """Whether a best marker has the colour of its curve, for plots in which several curves have
        one."""

    def __contains__(self, name: str) -> bool:
        return name in self._curves

    def __getitem__(self, name: str) -> Curve:
        return self._curves[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._curves)

    def curves(self) -> list[Curve]:
        """All curves in their order."""
        return list(self._curves.values())

    def add(self, name: str) -> Curve:
        """Create a curve after the others."""
        curve = self._curves[name] = Curve(name, len(self._curves))
        curve.set_x_scale(self.scale)
        curve.set_smoothing(self._smoothing)
        return curve

    def remove(self, name: str) -> Curve:
        """Remove a curve and return it."""
        return self._curves.pop(name)

    def clear(self) -> None:
        """Remove all curves."""
        self._curves.clear()

    def sort(self) -> None:
        """Sort the curves by `order`; those without one come first, in the order of creation."""
        by_order = sorted(self._curves.items(), key=lambda each: each[1].order or (-1, 0))
        self._curves = dict(by_order)

    def set_smoothing(self, smoothing: float) -> None:
        """Set the weight of the past in the smoothed lines, 0 (none) to 0.999."""
        self._smoothing = smoothing
        for curve in self._curves.values():
            curve.set_smoothing(smoothing)

    def set_x_scale(self, scale: XScale) -> None:
        """Place all curves on another horizontal axis."""
        self.scale = scale
        for curve in self._curves.values():
            curve.set_x_scale(scale)

    @property
    def is_smoothed(self) -> bool:
        """Whether all smoothed values have been drawn; if not, another repaint computes more of
        them."""
        return all(curve.is_smoothed for curve in self._curves.values())

    def x_range(self) -> Range | None:
        """Return the first and the last x position of all curves; None without points."""
        return union(curve.series.x_range() for curve in self._curves.values())

    def step_when(self, time: float) -> float:
        """Return the step, interpolated, that the first curve had reached at `time`; NaN without
        points."""
        first = next(iter(self._curves.values()), None)
        return first.series.step_when(time) if first else math.nan

    def values(self, *, log: bool, fixed: tuple[float | None, float | None]) -> Range:
        """Return the lowest and the highest value of the visible curves (above 0 for a logarithmic
        axis), extended to the ends of `fixed` that are not None."""
        shown = (curve for curve in self._curves.values() if curve.visible)
        found = union(curve.series.bounds(positive=log) for curve in shown)
        low, high = found or ((1.0, 10.0) if log else (0.0, 1.0))
        fixed_low, fixed_high = fixed
        if fixed_low is not None and not (log and fixed_low <= 0):
            low = min(low, fixed_low)
        return low, high if fixed_high is None else max(high, fixed_high)

    def best_markers(self, theme: Theme) -> list[BestMarker]:
        """Return the best markers of the visible curves."""
        return [
            self._best_marker(curve, theme, *found)
            for curve in self._curves.values()
            if (found := curve.best_marker())
        ]

    def readings(self, x: float, theme: Theme) -> tuple[str, list[Reading]]:
        """Return the description of the position `x`, and the values of the visible curves
        there."""
        present = [curve for curve in self._curves.values() if curve.visible and curve.covers(x)]
        step = present[0].step_at(x) if present else math.nan
        return self.scale.describe(x, step), [
            Reading(
                curve.label,
                theme.curve(curve.colour_index),
                self.with_unit(curve.value_at(x)),
                curve.dash.symbol,
            )
            for curve in present
        ]

    def newest(self) -> str:
        """Return the newest value of the first visible curve; empty if there is none."""
        shown = (curve for curve in self._curves.values() if curve.visible and len(curve.series))
        first = next(shown, None)
        return self.with_unit(first.series.last) if first else ""

    def with_unit(self, value: float) -> str:
        """Format a value with its unit."""
        return f"{value:{self._format}}{self._unit}" if math.isfinite(value) else str(value)

    def _best_marker(
        self, curve: Curve, theme: Theme, x: float, value: float, where: str
    ) -> BestMarker:
        colour, text = theme.warn, translate("CurveSet", "Best: {value} at {where}")
        if self.coloured_best_markers:
            colour = theme.curve(curve.colour_index)
            text = translate("CurveSet", "Best of {curve}: {value} at {where}")
        text = text.format(curve=curve.label, value=self.with_unit(value), where=where)
        return BestMarker(x, value, colour, text)
