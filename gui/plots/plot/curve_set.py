"""The curves of one plot in their order, and the properties that they share."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gui.plots.data.best_point import BestMarker
from gui.plots.data.ranges import Range, union
from gui.plots.data.series import PointReading
from gui.plots.data.x_axis import XKind, XScale
from gui.plots.plot.crosshair import Reading
from gui.plots.plot.curve import Curve, Spread
from gui.style.theme import Theme


class CurveSet:
    """Curves by name. `value_format` is a format specification; `unit` follows the value."""

    def __init__(self, value_format: str, unit: str, *, is_stacked: bool = False) -> None:
        """In a set that `is_stacked`, each curve is the upper edge of a part."""
        self._format = value_format
        self._unit = f" {unit}" if unit else ""
        self._curves: dict[str, Curve] = {}
        self._smoothing = 0.0
        self._is_stacked = is_stacked
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

    def add(self, name: str, kind: type[Curve] = Curve) -> Curve:
        """Create a curve after the others."""
        curve = self._curves[name] = kind(name, len(self._curves))
        curve.is_filled = self._is_stacked
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

    def stack(self) -> None:
        """Paint the lower parts of a stack over the higher ones: each is filled down to 0."""
        for place, curve in enumerate(self._curves.values() if self._is_stacked else ()):
            for item in curve.items:
                item.setZValue(-place)

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
        found = union(curve.bounds(positive=log) for curve in shown)
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

    def place(self, x: float, pixel: float = 0.0) -> list[str]:
        """Describe the point, or the block of points, nearest to the position `x`; it is one of the
        first visible curve that covers `x`. The texts say less and less. `pixel`: as for
        `readings`."""
        shown = (curve for curve in self._curves.values() if curve.visible)
        found = next(filter(None, (curve.point_at(x, pixel) for curve in shown)), None)
        if found is None:
            return [self.scale.describe(x, math.nan), self.scale.name(x)]
        begin, last = self._begin(found), found.last_step
        texts = [self.scale.describe(begin, found.step, last), self.scale.name(begin, last)]
        return [*texts, self.scale.number(begin, last)] if last > found.step else texts

    def step_at(self, x: float) -> int | None:
        """Return the step of the point nearest to the position `x`, of the first visible curve that
        covers it; None: there is none."""
        shown = (curve for curve in self._curves.values() if curve.visible)
        found = next(filter(None, (curve.point_at(x, 0.0) for curve in shown)), None)
        return None if found is None or math.isnan(found.step) else int(found.step)

    def readings(self, x: float | None, theme: Theme, pixel: float = 0.0) -> list[Reading]:
        """Return the values of the visible curves at their points nearest to the position `x`; the
        newest ones if it is None. `pixel` is the width of one."""
        found = [
            (name, curve, curve.series.newest_point() if x is None else curve.point_at(x, pixel))
            for name, curve in self._curves.items()
            if curve.visible or self._is_stacked
        ]
        edges = [0.0, *(point.low if point else 0.0 for _, _, point in found)]
        below = edges if self._is_stacked else [0.0] * len(edges)
        shown = (self._number(point) for _, curve, point in found if point and curve.visible)
        place = "" if x is None else next(shown, "")
        return [
            Reading(
                name,
                curve.label,
                self._text(point.low - edge, point.high - edge)
                + self._spread_text(curve.spread_at(point)),
                "" if math.isnan(point.smoothed) else self._text(point.smoothed, point.smoothed),
                self._unit,
                theme.curve(curve.colour_index),
                point.x,
                self._number(point) if place and self._number(point) != place else "",
                (point.low, point.high),
            )
            for (name, curve, point), edge in zip(found, below, strict=False)
            if point is not None and curve.visible
        ]

    def _begin(self, point: PointReading) -> float:
        """Return the position of a point; of a block, where it begins if that is known."""
        of_steps = self.scale.kind is XKind.STEP and not math.isnan(point.step)
        return point.step if of_steps else point.x

    def _number(self, point: PointReading) -> str:
        """Return the place of a point, or of its block, as the axis counts; empty: it has none."""
        return self.scale.number(self._begin(point), point.last_step)

    def _text(self, low: float, high: float) -> str:
        """Format a value, or the lowest and the highest value of a block of points."""
        if not math.isfinite(low):
            return str(low)
        first, last = f"{low:{self._format}}", f"{high:{self._format}}"
        return first if first == last else f"{first}–{last}"

    def _spread_text(self, spread: Spread | None) -> str:
        """Return what follows a mean: its deviation, and of how many curves it is if not of all."""
        if spread is None:
            return ""
        form = self._format if self._format.endswith("f") else ".2g"
        text = f" ± {spread.deviation:{form}}" if spread.present > 1 else ""
        if spread.present < spread.curves:
            text += " " + f"(n = {spread.present} of {spread.curves})"
        return text

    def _best_marker(
        self, curve: Curve, theme: Theme, x: float, value: float, where: str
    ) -> BestMarker:
        colour, best = theme.warn, "Best"
        if self.coloured_best_markers:
            colour, best = theme.curve(curve.colour_index), f"Best of {curve.label}"
        text = f"{best}: {self._text(value, value)}{self._unit} at {where}"
        return BestMarker(x, value, colour, text)
