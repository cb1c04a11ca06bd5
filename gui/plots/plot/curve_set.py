"""The curves of one plot, in their order, and what they have in common."""

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
    """Curves by name. `value_format` is a format specification, `unit` what stands behind it."""

    def __init__(self, value_format: str, unit: str) -> None:
        self._format = value_format
        self._unit = f" {unit}" if unit else ""
        self._curves: dict[str, Curve] = {}
        self._smoothing = 0.0
        self.scale = XScale()
        """The horizontal axis on which the curves stand."""

        self.coloured_best_markers = False
        """Whether a star has the colour of its curve: where several have one."""

    def __contains__(self, name: str) -> bool:
        return name in self._curves

    def __getitem__(self, name: str) -> Curve:
        return self._curves[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._curves)

    def curves(self) -> list[Curve]:
        """All of them, in their order."""
        return list(self._curves.values())

    def add(self, name: str) -> Curve:
        """Make a curve, which stands behind the others."""
        curve = self._curves[name] = Curve(name, len(self._curves))
        curve.set_x_scale(self.scale)
        curve.set_smoothing(self._smoothing)
        return curve

    def remove(self, name: str) -> Curve:
        """Drop a curve, and give it back."""
        return self._curves.pop(name)

    def clear(self) -> None:
        """Drop all."""
        self._curves.clear()

    def sort(self) -> None:
        """Put them in their `order`; those without one come first, as they came."""
        by_order = sorted(self._curves.items(), key=lambda each: each[1].order or (-1, 0))
        self._curves = dict(by_order)

    def set_smoothing(self, smoothing: float) -> None:
        """Weight of the past in the smoothed lines, 0 (none) to 0.999."""
        self._smoothing = smoothing
        for curve in self._curves.values():
            curve.set_smoothing(smoothing)

    def set_x_scale(self, scale: XScale) -> None:
        """Place all on another horizontal axis."""
        self.scale = scale
        for curve in self._curves.values():
            curve.set_x_scale(scale)

    @property
    def is_smoothed(self) -> bool:
        """Whether what was drawn is all; else another look brings more of the smoothed lines."""
        return all(curve.is_smoothed for curve in self._curves.values())

    def x_range(self) -> Range | None:
        """First and last place on the horizontal axis; None without points."""
        return union(curve.series.x_range() for curve in self._curves.values())

    def step_when(self, time: float) -> float:
        """The step that the first curve had reached, about, at `time`; NaN without points."""
        first = next(iter(self._curves.values()), None)
        return first.series.step_when(time) if first else math.nan

    def values(self, *, log: bool, least: tuple[float | None, float | None]) -> Range:
        """Lowest and highest value of what is visible (above 0 for a logarithmic axis), as far out
        as the ends of `least` at least."""
        shown = (curve for curve in self._curves.values() if curve.visible)
        found = union(curve.series.bounds(positive=log) for curve in shown)
        low, high = found or ((1.0, 10.0) if log else (0.0, 1.0))
        fixed_low, fixed_high = least
        if fixed_low is not None and not (log and fixed_low <= 0):
            low = min(low, fixed_low)
        return low, high if fixed_high is None else max(high, fixed_high)

    def best_markers(self, theme: Theme) -> list[BestMarker]:
        """Where the best values of the curves that are seen stand."""
        return [
            self._best_marker(curve, theme, *found)
            for curve in self._curves.values()
            if (found := curve.best_marker())
        ]

    def readings(self, x: float, theme: Theme) -> tuple[str, list[Reading]]:
        """What the place `x` is called, and what the curves that are seen have there."""
        there = [curve for curve in self._curves.values() if curve.visible and curve.covers(x)]
        step = there[0].step_at(x) if there else math.nan
        return self.scale.words(x, step), [
            Reading(
                curve.label,
                theme.curve(curve.colour_index),
                self.with_unit(curve.value_at(x)),
                curve.dash.sign,
            )
            for curve in there
        ]

    def newest(self) -> str:
        """The newest value of the first curve that is seen; empty without any."""
        shown = (curve for curve in self._curves.values() if curve.visible and len(curve.series))
        first = next(shown, None)
        return self.with_unit(first.series.last) if first else ""

    def with_unit(self, value: float) -> str:
        """A value with its unit."""
        return f"{value:{self._format}}{self._unit}" if math.isfinite(value) else str(value)

    def _best_marker(
        self, curve: Curve, theme: Theme, x: float, value: float, where: str
    ) -> BestMarker:
        if not self.coloured_best_markers:
            text = translate("CurveSet", "Best: {value} at {where}")
            return BestMarker(
                x, value, theme.warn, text.format(value=self.with_unit(value), where=where)
            )
        text = translate("CurveSet", "Best of {curve}: {value} at {where}")
        text = text.format(curve=curve.label, value=self.with_unit(value), where=where)
        return BestMarker(x, value, theme.curve(curve.colour_index), text)
