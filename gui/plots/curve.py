"""One curve of a plot: its points, the items that draw them, and the pens they take."""

from __future__ import annotations

import numpy as np
import pyqtgraph as pg

from gui.plots.pyramid import Array
from gui.plots.series import Series
from gui.theme import Theme

FEW_POINTS = 300
"""Up to here a thick path with clean joints is cheap; beyond, only separate segments are."""

DOTTED = 40
"""Up to here every point gets a dot, so that a single one is seen too."""

_WIDTH = 2.0
_DOT = 5.0
_TICK = 0.05
"""Height of the ticks at gaps, as a part of the plot's."""


class Curve:
    """Draws its series: faint raw values behind a thick smoothed line, or one line alone."""

    def __init__(self, label: str, colour_index: int) -> None:
        self.label = label
        self.colour_index = colour_index
        self.smooth = True
        """Whether the smoothing slider applies; else the points are drawn as they are."""

        self.marks_gaps = False
        """Whether a tick at the lower edge stands where a value is NaN or infinite."""

        self.visible = True
        self.series = Series()
        self._raw = pg.PlotCurveItem(connect="finite", antialias=False)
        self._line = pg.PlotCurveItem(connect="finite", antialias=True)
        self._dots = pg.ScatterPlotItem(size=_DOT, pen=None, antialias=True)
        self._ticks = pg.VTickGroup(yrange=(0.0, _TICK))
        self.items = (self._raw, self._line, self._dots, self._ticks)

    def set_look(self, theme: Theme, pixel_ratio: float) -> None:
        """Take the colours of `theme`; widths are in logical pixels."""
        colour = pg.mkColor(theme.curve(self.colour_index))
        faint = pg.mkColor(colour)
        faint.setAlpha(theme.raw)
        # pyqtgraph's pens are cosmetic: their width counts device pixels.
        self._faint = pg.mkPen(faint, width=1)
        self._thin = pg.mkPen(colour, width=1)
        self._thick = pg.mkPen(colour, width=_WIDTH * pixel_ratio)
        self._dots.setBrush(pg.mkBrush(colour))
        self._ticks.setPen(pg.mkPen(theme.bad, width=_WIDTH * pixel_ratio))

    def draw(self, x0: float, x1: float, pixels: int, *, raw: bool, log: bool) -> None:
        """Draw what lies between the steps `x0` and `x1`, decimated for `pixels` pixels."""
        for item in self.items:
            item.setVisible(self.visible)
        if not self.visible:
            return
        if self.marks_gaps:
            self._ticks.setXVals(self.series.gaps(x0, x1, pixels))
            self._ticks.update()
        smoothed = bool(self.series.smoothing)
        if smoothed and raw:
            xs, ys = self.series.view(x0, x1, pixels)
            self._raw.setData(xs, _scaled(ys, log), pen=self._faint)
        else:
            self._raw.clear()
        view = self.series.smoothed_view if smoothed else self.series.view
        xs, ys = view(x0, x1, pixels)
        ys = _scaled(ys, log)
        few = len(xs) <= FEW_POINTS
        # A thick anti-aliased path over noise takes a second a frame; segments do not.
        self._line.setSegmentedLineMode("off" if few else "on")
        self._line.setData(xs, ys, pen=self._thick if few or smoothed else self._thin)
        there = ~np.isnan(ys)
        if len(self.series) <= DOTTED and there.any():
            self._dots.setData(xs[there], ys[there])
        else:
            self._dots.clear()

    def covers(self, step: float) -> bool:
        """Whether `step` lies between the first point and the last."""
        steps = self.series.steps()
        return steps is not None and steps[0] <= step <= steps[1]

    def value_at(self, step: float) -> float:
        """What the line shows near `step`; NaN where it shows nothing."""
        return self.series.value_at(step, smoothed=bool(self.series.smoothing))


def _scaled(values: Array, log: bool) -> Array:
    if not log:
        return values
    return np.log10(values, out=np.full(len(values), np.nan), where=values > 0)
