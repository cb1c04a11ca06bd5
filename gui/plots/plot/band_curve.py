"""The curve of a group of runs: their mean, over an area of one deviation to each side."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyqtgraph as pg

from gui.plots.data.band import Band
from gui.plots.data.growing_pyramid import Array
from gui.plots.data.ranges import Range, union
from gui.plots.data.series import PointReading
from gui.plots.data.x_axis import XScale
from gui.plots.plot.curve import Curve, Spread, show_item
from gui.style.theme import Theme

Mask = npt.NDArray[np.bool_]
"""Where an area is known."""

OPACITY = 0.22
"""Of the area: where areas of several groups overlap, all of them are seen."""

_DECADES_BELOW = 3.0
"""On a logarithmic axis, how far the area goes below the lowest positive value where its lower edge
is not positive."""


class BandCurve(Curve):
    """Its points are positions on the present horizontal axis, not steps."""

    def __init__(self, label: str, colour_index: int) -> None:
        super().__init__(label, colour_index)
        nothing = np.empty(0)
        self._band = Band(nothing, nothing, nothing, np.empty(0, np.intp), 0)
        self._low = self._high = nothing
        self._area = pg.PlotCurveItem(connect="finite", antialias=True, pen=None)
        self._area.setZValue(-1)
        self.items = (self._area, *self.items)
        self.drawn_area: tuple[Array, Array, Array] = (nothing, nothing, nothing)
        """X positions, and lower and upper edge on the value axis, as they are drawn; NaN
        interrupts the area."""

    def set_band(self, band: Band) -> None:
        """Replace everything."""
        self.clear()
        self._band = band
        with np.errstate(over="ignore"):
            mean, deviation = band.mean, band.deviation
            self._low, self._high = band.edges or (mean - deviation, mean + deviation)
        self.series.extend(band.x, band.mean)

    def set_style(self, theme: Theme, pixel_ratio: float) -> None:
        """Apply the colours of `theme` to line and area."""
        super().set_style(theme, pixel_ratio)
        colour = pg.mkColor(theme.curve(self.colour_index))
        colour.setAlphaF(OPACITY)
        self._brush = pg.mkBrush(colour)

    def set_x_scale(self, scale: XScale) -> None:
        """Keep the positions: each run had its own scale."""

    def draw(self, x0: float, x1: float, pixels: int, *, raw: bool, log: bool) -> None:
        """Draw the area, and the mean over it."""
        super().draw(x0, x1, pixels, raw=raw, log=log)
        if not self.visible:
            return
        xs = self._band.x
        part = slice(
            max(int(np.searchsorted(xs, x0)) - 1, 0), int(np.searchsorted(xs, x1, "right")) + 1
        )
        low, high = self._low[part], self._high[part]
        if log:
            low, high = _logarithms(low, high)
        known = np.isfinite(low) & np.isfinite(high)
        low, high = np.where(known, low, np.nan), np.where(known, high, np.nan)
        self.drawn_area = xs[part], low, high
        here = xs[part] - x0
        self._drawn += [(here, high)] if log else [(here, low), (here, high)]
        has_area = bool(known.any())
        show_item(self._area, x0, is_shown=has_area)
        if has_area:
            outline = _outline(here, low, high, known)
            self._area.setData(*outline, fillLevel="enclosed", brush=self._brush)

    def bounds(self, *, positive: bool = False) -> Range | None:
        """Return the lowest and the highest value of the area and the mean."""
        edges = np.append(self._low, self._high)
        edges = edges[np.isfinite(edges) & ((edges > 0) | (not positive))]
        area = (float(edges.min()), float(edges.max())) if len(edges) else None
        return union((area, super().bounds(positive=positive)))

    def point_at(self, x: float, width: float = 0.0) -> PointReading | None:
        """Return the mean nearest to `x`; None where no run has a value. A position has no step of
        its own."""
        found = super().point_at(x, width)
        return (
            None
            if found is None or np.isnan(found.low)
            else found._replace(step=np.nan, last_step=np.nan)
        )

    def spread_at(self, point: PointReading) -> Spread | None:
        """Return the deviation at a point of the mean; None: it is not known."""
        place = int(np.searchsorted(self._band.x, point.x))
        if place >= len(self._band.x) or self._band.edges is not None:
            return None
        band = self._band
        return Spread(float(band.deviation[place]), int(band.present[place]), band.curves)


def _logarithms(low: Array, high: Array) -> tuple[Array, Array]:
    """Return both edges on a logarithmic axis. A lower edge that is not positive is below every
    value."""
    positive = np.append(low[low > 0], high[high > 0])
    floor = np.log10(positive.min()) - _DECADES_BELOW if len(positive) else 0.0
    bottom = np.log10(low, out=np.full(len(low), floor), where=low > 0)
    bottom[np.isnan(low)] = np.nan
    return bottom, np.log10(high, out=np.full(len(high), np.nan), where=high > 0)


def _outline(xs: Array, low: Array, high: Array, known: Mask) -> tuple[Array, Array]:
    """Return closed outlines, one for each part that NaN does not interrupt, with NaN between."""
    across: list[Array] = []
    along: list[Array] = []
    gap = np.array([np.nan])
    for part in np.split(np.arange(len(xs)), np.flatnonzero(np.diff(known)) + 1):
        if known[part[0]]:
            across += [xs[part], xs[part][::-1], gap]
            along += [high[part], low[part][::-1], gap]
    return np.concatenate(across), np.concatenate(along)
