"""One curve of a plot: its points, a finer piece of them, and the items and pens that draw them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pyqtgraph as pg

from engine.runs.store_reader import StoredPoints
from gui.plots.data.best_point import BestPoint, find_best
from gui.plots.data.growing_pyramid import Array
from gui.plots.data.ranges import Range
from gui.plots.data.series import Series
from gui.plots.data.x_axis import XScale
from gui.plots.plot.dash_styles import DASHED, SOLID, dash_style_of
from gui.style.theme import Theme

MAX_PATH_POINTS = 300
"""Up to here a thick path with clean joints is cheap; beyond, only separate segments are."""

MAX_DOTTED_POINTS = 40
"""Up to here every point gets a dot, so that a single one is seen too."""

_WIDTH = 2.0
_DOT = 5.0


class ZoomPoints(NamedTuple):
    """A part of a curve whose points lie closer than in the whole."""

    series: Series
    exact: bool
    """Every point is there: nothing finer can be had."""


class Curve:
    """Draws its series: faint raw values behind a thick smoothed line, or one line alone."""

    def __init__(self, label: str, colour_index: int) -> None:
        self.label = label
        self.colour_index = colour_index
        self._smooth = True
        self._smoothing = 0.0
        self.marks_gaps = False
        """Whether a tick at the lower edge stands where a value is NaN or infinite."""

        self.best_sign = 0
        """-1: the lowest value is the best and gets a star; 1: the highest; 0: there is no star."""

        self.visible = True
        self.dashed = False
        """Whether it has dashes in any case, and not only where another curve has its colour."""

        self.dash = SOLID
        self.order: tuple[int, int] | None = None
        """Place among the curves; None: as they came."""

        self.series = Series()
        self._drawn = self.series
        self.coarse = 0
        """How many points of the series, from its beginning, stand for several each: finer ones can
        be had."""

        self._best: BestPoint | None = None
        self._zoom_points: ZoomPoints | None = None
        self._asked: Range | None = None
        self._scale = XScale()
        self._raw = pg.PlotCurveItem(connect="finite", antialias=False)
        self._line = pg.PlotCurveItem(connect="finite", antialias=True)
        self._dots = pg.ScatterPlotItem(size=_DOT, pen=None, antialias=True)
        self.items = (self._raw, self._line, self._dots)

    def set_style(self, theme: Theme, pixel_ratio: float) -> None:
        """Take the colours of `theme`; widths are in logical pixels."""
        colour = pg.mkColor(theme.curve(self.colour_index))
        faint = pg.mkColor(colour)
        faint.setAlpha(theme.raw)
        # pyqtgraph's pens are cosmetic: their width counts device pixels.
        self._faint = pg.mkPen(faint, width=1)
        self._thin = pg.mkPen(colour, width=1)
        self._thick = pg.mkPen(colour, width=_WIDTH * pixel_ratio)
        self.dash = DASHED if self.dashed else dash_style_of(self.colour_index, theme)
        if self.dash.pattern:
            self._thick.setDashPattern(self.dash.pattern)
        self._dots.setBrush(pg.mkBrush(colour))

    def extend(self, points: StoredPoints) -> None:
        """Append points, as `Series.extend` does."""
        self.series.extend(points.step, points.value, points.time, points.statistics)
        if points.statistics is not None:
            self.coarse = len(self.series)
        self._best = find_best(self._best, self.best_sign, points)

    def draw(self, x0: float, x1: float, pixels: int, *, raw: bool, log: bool) -> None:
        """Draw what lies between the places `x0` and `x1`, decimated for `pixels` pixels."""
        for item in self.items:
            item.setVisible(self.visible)
            put(item, x0)
        if not self.visible:
            return
        series = self._drawn = self._shown(x0, x1)
        smoothed = bool(series.smoothing)
        if smoothed and raw and not self.dash.pattern:
            xs, ys = series.view(x0, x1, pixels)
            self._raw.setData(xs - x0, _scaled(ys, log), pen=self._faint)
        else:
            self._raw.clear()
        view = series.smoothed_view if smoothed else series.view
        # Dashes need a path, and a path is cheap with few points only.
        xs, ys = view(x0, x1, min(pixels, MAX_PATH_POINTS // 4) if self.dash.pattern else pixels)
        xs, ys = xs - x0, _scaled(ys, log)
        few = len(xs) <= MAX_PATH_POINTS
        # A thick anti-aliased path over noise takes a second a frame; segments do not.
        self._line.setSegmentedLineMode("off" if few else "on")
        self._line.setData(xs, ys, pen=self._thick if few or smoothed else self._thin)
        there = ~np.isnan(ys)
        if len(self.series) <= MAX_DOTTED_POINTS and there.any():
            self._dots.setData(xs[there], ys[there])
        else:
            self._dots.clear()

    def set_best_sign(self, best_sign: int) -> None:
        """Change which value gets the star, also among the points that are there."""
        if best_sign != self.best_sign:
            self.best_sign = best_sign
            self._best = self.series.best(best_sign)

    def set_smoothing(self, smoothing: float) -> None:
        """Weight of the past, 0 (none) to 0.999."""
        self._smoothing = smoothing
        for series in self._all():
            series.set_smoothing(smoothing if self._smooth else 0.0)

    def set_smooth(self, smooth: bool) -> None:
        """Whether the smoothing applies; else the points are drawn as they are."""
        self._smooth = smooth
        self.set_smoothing(self._smoothing)

    def set_x_scale(self, scale: XScale) -> None:
        """Place the points on another horizontal axis."""
        self._scale = scale
        self._asked = None
        for series in self._all():
            series.set_x_scale(scale)

    @property
    def is_smoothed(self) -> bool:
        """Whether all of what is drawn of it has its smoothed values."""
        return not self.visible or self._drawn.is_smoothed

    def clear(self) -> None:
        """Forget every point."""
        self.series.clear()
        self.coarse = 0
        self._best = None
        self._zoom_points = self._asked = None
        self._drawn = self.series

    def missing_steps(self, x0: float, x1: float, pixels: int) -> Range | None:
        """Steps between which finer points would show in a view of `x0` to `x1` and are not there;
        None where all is well, or where they have been asked for. There is some room at both ends,
        so that panning finds them there."""
        series = self._shown(x0, x1)
        exact = (
            self._zoom_points is not None
            and series is self._zoom_points.series
            and self._zoom_points.exact
        )
        if exact or not self.coarse or series.count_between(x0, x1) >= 2 * pixels:
            return None
        if self.series.count_between(-math.inf, x0) > self.coarse:
            return None
        first, last = self.series.steps_between(x0, x1)
        wanted = first - (last - first) / 2, last + (last - first) / 2
        if wanted == self._asked:
            return None
        self._asked = wanted
        return wanted

    def set_zoom_points(self, points: StoredPoints) -> None:
        """Take the points of a piece, the answer to `missing_steps`."""
        series = Series()
        series.set_smoothing(self.series.smoothing)
        series.set_x_scale(self._scale)
        series.extend(points.step, points.value, points.time, points.statistics)
        self._zoom_points = ZoomPoints(series, exact=points.statistics is None)

    def gaps(self, x0: float, x1: float, pixels: int) -> Array:
        """Places in sight to be marked because the value there is NaN or infinite."""
        marks = self.marks_gaps and self.visible
        return self._drawn.gaps(x0, x1, pixels) if marks else np.empty(0)

    def best_marker(self) -> tuple[float, float, str] | None:
        """Place and value of the best point and what the place is called; None: it is not seen."""
        if self._best is None or not self.visible:
            return None
        x = float(self._scale.x(np.array([self._best.step]), np.array([self._best.time]))[0])
        if math.isnan(x):
            return None
        return x, self._best.value, self._scale.words(x, self._best.step)

    def gap_starts(self) -> Array:
        """Places, in sight or not, where gaps that are marked begin."""
        return self.series.gap_starts() if self.marks_gaps and self.visible else np.empty(0)

    def place_beyond(self, x: float, way: int, least: float) -> float:
        """The next point to one side, as `Series` has it: of the piece, too, if it is drawn."""
        found = [each.place_beyond(x, way, least) for each in (self.series, self._drawn)]
        there = [place for place in found if not math.isnan(place)]
        return (min if way > 0 else max)(there, default=math.nan)

    def covers(self, x: float) -> bool:
        """Whether `x` lies between the first point and the last."""
        ends = self.series.x_range()
        return ends is not None and ends[0] <= x <= ends[1]

    def value_at(self, x: float) -> float:
        """What the line shows near `x`; NaN where it shows nothing."""
        return self._drawn.value_at(x, smoothed=bool(self._drawn.smoothing))

    def step_at(self, x: float) -> float:
        """The step of the point nearest to `x`; NaN where there is none."""
        return self._drawn.step_at(x)

    def _shown(self, x0: float, x1: float) -> Series:
        """The piece where it has all that is in sight, else the whole curve."""
        whole, piece = (
            self.series.x_range(),
            self._zoom_points and self._zoom_points.series.x_range(),
        )
        if self._zoom_points is None or whole is None or piece is None:
            return self.series
        inside = piece[0] <= max(x0, whole[0]) and min(x1, whole[1]) <= piece[1]
        return self._zoom_points.series if inside else self.series

    def _all(self) -> list[Series]:
        return [self.series, self._zoom_points.series] if self._zoom_points else [self.series]


def put(item: pg.GraphicsObject, x: float) -> None:
    """Let the points of `item` count from `x`: seconds since the epoch have more digits than an
    SVG file keeps."""
    if item.pos().x() != x:
        item.setPos(x, 0.0)
        # It remembers what is in sight, and would leave out points of where it was.
        item.viewTransformChanged()


def _scaled(values: Array, log: bool) -> Array:
    if not log:
        return values
    return np.log10(values, out=np.full(len(values), np.nan), where=values > 0)
