"""One curve of a plot: its points, zoom points for a part of it, and the items that draw it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import pyqtgraph as pg
from PySide6.QtGui import QColor

from engine.runs.store.stored_points import StoredPoints
from gui.plots.data.best_point import BestPoint, find_best
from gui.plots.data.growing_pyramid import Array
from gui.plots.data.ranges import Range, union
from gui.plots.data.series import PointReading, Series
from gui.plots.data.x_axis import XScale
from gui.plots.plot.dash_styles import DASHED, SOLID, dash_style_of
from gui.style.theme import Theme

MAX_PATH_POINTS = 300
"""With more points, a thick path with smooth joints is slow: separate segments are drawn."""

MAX_DOTTED_POINTS = 40
"""A curve with at most this many points has a dot at each, so that a single point is visible."""

_WIDTH = 2.0
_DOT = 5.0
_FILL = 0.45
"""How much of the colour of a curve its filled area has; the rest is that of the card."""

_BAND_STROKE = 0.1
"""Mean height of the strokes of a band, as a part of the height of the whole line."""


class ZoomPoints(NamedTuple):
    """Points of a part of a curve that are closer together than those of the whole curve."""

    series: Series
    exact: bool
    """Whether every stored point of the part is here, so that a further zoom needs no more
    points."""


class Spread(NamedTuple):
    """Of the values whose mean a point is."""

    deviation: float
    present: int
    """How many values there are."""

    curves: int
    """How many curves the mean is of elsewhere."""


class Curve:
    """Draws its series: pale raw values behind a thick smoothed line, or one line only."""

    def __init__(self, label: str, colour_index: int) -> None:
        self.label = label
        self.short = ""
        """The label where there is little room; empty: the label itself."""

        self.about = ""
        """What the tooltip of its name says besides."""

        self.colour_index = colour_index
        self._smooth = True
        self._smoothing = 0.0
        self.marks_gaps = False
        """Whether a tick at the lower edge marks each value that is NaN or infinite."""

        self.best_sign = 0
        """-1: the best marker stands at the lowest value; 1: at the highest value; 0: there is
        none."""

        self.visible = True
        self.dashed = False
        """Whether the line is always dashed, not only where another curve has the same colour."""

        self.is_thin = False
        """Whether it is one of so many that a thick or dashed line would hide the others."""

        self.is_filled = False
        """Whether the area below the line is filled."""

        self.dash = SOLID
        self.order: tuple[int, int] | None = None
        """Sort key among the curves of the plot; None: in the order of creation."""

        self.series = Series()
        self._drawn_series = self.series
        self._drawn: list[tuple[Array, Array]] = []
        """The lines of the last `draw`: x positions from its left end, positions on the value
        axis."""

        self.coarse_count = 0
        """The number of points, from the beginning of the series, that stand for blocks of steps: a
        zoom there needs more points."""

        self._best: BestPoint | None = None
        self._zoom_points: ZoomPoints | None = None
        self._requested: Range | None = None
        self._scale = XScale()
        self._raw = pg.PlotCurveItem(connect="finite", antialias=False)
        self._raw.setZValue(-1)  # behind the smoothed lines of all curves
        self._line = pg.PlotCurveItem(connect="finite", antialias=True)
        self._dots = pg.ScatterPlotItem(size=_DOT, pen=None, antialias=True)
        self.lines = (self._raw, self._line)
        self.items: tuple[pg.GraphicsObject, ...] = (*self.lines, self._dots)

    def set_style(self, theme: Theme, pixel_ratio: float) -> None:
        """Apply the colours of `theme`; line widths are in logical pixels."""
        colour = pg.mkColor(theme.curve(self.colour_index))
        faint = pg.mkColor(colour)
        faint.setAlpha(theme.raw)
        # pyqtgraph's pens are cosmetic: their width is in device pixels.
        self._faint = pg.mkPen(faint, width=1)
        self._thin = pg.mkPen(colour, width=1)
        self._thick = pg.mkPen(colour, width=_WIDTH * pixel_ratio)
        self.dash = DASHED if self.dashed else dash_style_of(self.colour_index, theme)
        if self.is_thin and not self.dashed:
            self.dash, self._thick = SOLID, self._thin
        if self.dash.pattern:
            self._thick.setDashPattern(self.dash.pattern)
        self._dots.setBrush(pg.mkBrush(colour))
        self._fill = pg.mkBrush(_mixed(colour, pg.mkColor(theme.card))) if self.is_filled else None

    def extend(self, points: StoredPoints) -> None:
        """Append points; see `Series.extend`."""
        self.series.extend(points.step, points.value, points.time, points.statistics)
        if points.statistics is not None:
            self.coarse_count = len(self.series)
        self._best = find_best(self._best, self.best_sign, points)

    def adopt(self, series: Series) -> None:
        """Draw the points of `series`, in the place of its own."""
        self.clear()
        self.series = self._drawn_series = series
        self.coarse_count = series.coarse_count
        self._best = series.best(self.best_sign)
        self.set_smoothing(self._smoothing)

    def draw(self, x0: float, x1: float, pixels: int, *, raw: bool, log: bool) -> None:
        """Draw the part between the x positions `x0` and `x1`, decimated for `pixels` pixels."""
        self._drawn = []
        if not self.visible:
            for item in self.items:
                show_item(item, x0, is_shown=False)
            return
        series = self._drawn_series = self._series_for(x0, x1)
        smoothed = bool(series.smoothing)
        is_faint = smoothed and raw and not self.dash.pattern
        show_item(self._raw, x0, is_shown=is_faint)
        if is_faint:
            xs, ys = series.view(x0, x1, pixels)
            xs, ys = xs - x0, _scaled(ys, log)
            self._raw.setData(xs, ys, pen=self._faint)
            self._drawn.append((xs, ys))
        view = series.smoothed_view if smoothed else series.view
        # Only a path can be dashed, and a path is fast with few points only.
        xs, ys = view(x0, x1, min(pixels, MAX_PATH_POINTS // 4) if self.dash.pattern else pixels)
        xs, ys = xs - x0, _scaled(ys, log)
        self._drawn.append((xs, ys))
        few = len(xs) <= MAX_PATH_POINTS
        # Painting a thick anti-aliased path through noisy values takes a second; segments are fast.
        self._line.setSegmentedLineMode("off" if few else "on")
        sharp = not smoothed and len(xs) > pixels and _is_band(ys)
        pen = self._thick if few or smoothed else self._thin
        show_item(self._line, x0, is_shown=True)
        self._line.setData(xs, ys, pen=pen, antialias=not (sharp or self.is_thin))
        if self.is_filled:
            self._line.setFillLevel(0.0)
            self._line.setBrush(self._fill)
        known = ~(np.isnan(xs) | np.isnan(ys))
        has_dots = len(self.series) <= MAX_DOTTED_POINTS and known.any() and not self.is_filled
        show_item(self._dots, x0, is_shown=bool(has_dots))
        if has_dots:
            self._dots.setData(xs[known], ys[known])

    def set_best_sign(self, best_sign: int) -> None:
        """Set which value is the best one (see `best_sign`), for present and future points."""
        if best_sign != self.best_sign:
            self.best_sign = best_sign
            self._best = self.series.best(best_sign)

    def set_smoothing(self, smoothing: float) -> None:
        """Set the weight of the past in the moving average, 0 (no smoothing) to 0.999."""
        self._smoothing = smoothing
        for series in self._all_series():
            series.set_smoothing(smoothing if self._smooth else 0.0)

    def set_smooth(self, smooth: bool) -> None:
        """Set whether the smoothing applies to this curve."""
        self._smooth = smooth
        self.set_smoothing(self._smoothing)

    def set_x_scale(self, scale: XScale) -> None:
        """Place the points on another horizontal axis."""
        self._scale = scale
        self._requested = None
        for series in self._all_series():
            series.set_x_scale(scale)

    @property
    def dot_size(self) -> float:
        """Diameter of the dot at each point, in logical pixels; 0 if there are none."""
        return _DOT if self._dots.isVisible() else 0.0

    @property
    def is_smoothed(self) -> bool:
        """Whether the smoothed values of everything that is drawn have been computed."""
        return not self.visible or self._drawn_series.is_smoothed

    def clear(self) -> None:
        """Delete every point."""
        self.series.clear()
        self.coarse_count = 0
        self._best = None
        self._zoom_points = self._requested = None
        self._drawn_series = self.series

    def missing_steps(self, x0: float, x1: float, pixels: int) -> Range | None:
        """Return the steps between which a view of `x0` to `x1` needs more points than there are;
        None if it needs none, or if they have been requested. The range is wider than the view, so
        that a pan finds points there."""
        series = self._series_for(x0, x1)
        zoomed = self._zoom_points
        exact = zoomed is not None and series is zoomed.series and zoomed.exact
        if exact or not self.coarse_count or series.count_between(x0, x1) >= 2 * pixels:
            return None
        if self.series.count_between(-math.inf, x0) > self.coarse_count:
            return None
        first, last = self.series.steps_between(x0, x1)
        wanted = first - (last - first) / 2, last + (last - first) / 2
        if wanted == self._requested:
            return None
        self._requested = wanted
        return wanted

    def set_zoom_points(self, points: StoredPoints) -> None:
        """Store the answer to `missing_steps`."""
        series = Series()
        series.set_smoothing(self.series.smoothing)
        series.set_x_scale(self._scale)
        series.extend(points.step, points.value, points.time, points.statistics)
        self._zoom_points = ZoomPoints(series, exact=points.statistics is None)

    def gaps(self, x0: float, x1: float, pixels: int) -> Array:
        """Return the visible x positions of values that are NaN or infinite, float64 of shape
        (n,)."""
        marks = self.marks_gaps and self.visible
        return self._drawn_series.gaps(x0, x1, pixels) if marks else np.empty(0)

    def best_marker(self) -> tuple[float, float, str] | None:
        """Return x position, value and description of the position of the best point; None if it is
        not visible."""
        if self._best is None or not self.visible:
            return None
        x = float(self._scale.x(np.array([self._best.step]), np.array([self._best.time]))[0])
        if math.isnan(x):
            return None
        return x, self._best.value, self._scale.describe(x, self._best.step)

    def gap_starts(self) -> Array:
        """Return the x positions at which marked gaps begin, visible or not, float64 of shape
        (n,)."""
        return self.series.gap_starts() if self.marks_gaps and self.visible else np.empty(0)

    def next_position(self, x: float, direction: int, min_distance: float) -> float:
        """Return the next point to one side, as `Series.next_position` does, of the whole curve or
        of its zoom points."""
        found = [
            each.next_position(x, direction, min_distance)
            for each in (self.series, self._drawn_series)
        ]
        known = [position for position in found if not math.isnan(position)]
        return (min if direction > 0 else max)(known, default=math.nan)

    def bounds(self, *, positive: bool = False) -> Range | None:
        """Return the lowest and the highest finite value (above 0 if `positive`), or None without
        any."""
        return self.series.bounds(positive=positive)

    def spread_at(self, point: PointReading) -> Spread | None:
        """Return the spread of what `point` is the mean of; None: it is a value by itself."""
        return None

    def point_at(self, x: float, width: float = 0.0) -> PointReading | None:
        """Return the point of the drawn curve that is nearest to `x`; None outside the curve.

        `width` is that of a pixel; see `Series.point_at`.
        """
        return self._drawn_series.point_at(x, width) if self.series.covers(x, width) else None

    def values_in_sight(self, x0: float, x1: float) -> Range | None:
        """Return the lowest and the highest position on the value axis that the last `draw` has
        drawn between the x positions `x0` and `x1`; None if it has drawn nothing there."""
        return union(_between(xs, ys, 0.0, x1 - x0) for xs, ys in self._drawn)

    def _series_for(self, x0: float, x1: float) -> Series:
        """Return the zoom points if they cover the view, otherwise the whole curve."""
        if self._zoom_points is None:
            return self.series
        whole, part = self.series.x_range(), self._zoom_points.series.x_range()
        if whole is None or part is None:
            return self.series
        inside = part[0] <= max(x0, whole[0]) and min(x1, whole[1]) <= part[1]
        return self._zoom_points.series if inside else self.series

    def _all_series(self) -> list[Series]:
        return [self.series, self._zoom_points.series] if self._zoom_points else [self.series]


def show_item(item: pg.GraphicsObject, x: float, *, is_shown: bool) -> None:
    """Draw `item` relative to the x position `x`: seconds since the epoch have more digits than an
    SVG file keeps. Or empty and hide it: to paint one without points takes time as well."""
    if not is_shown:
        if item.isVisible():
            item.setVisible(False)
            item.clear()
        return
    item.setVisible(True)
    if item.pos().x() != x:
        item.setPos(x, 0.0)
        # pyqtgraph caches the visible range, and would leave out points that are now in it.
        item.viewTransformChanged()


def _mixed(colour: QColor, card: QColor) -> QColor:
    """Return the colour of an area: not transparent, because the areas of a stack overlap."""
    parts = zip(_channels(colour), _channels(card), strict=True)
    return QColor(*(round(_FILL * own + (1 - _FILL) * below) for own, below in parts))


def _channels(colour: QColor) -> tuple[int, int, int]:
    return colour.red(), colour.green(), colour.blue()


def _scaled(values: Array, log: bool) -> Array:
    if not log:
        return values
    return np.log10(values, out=np.full(len(values), np.nan), where=values > 0)


def _is_band(values: Array) -> bool:
    """Whether the strokes of a line with several corners per pixel fill an area: smooth edges of
    the strokes cannot be seen there, and take most of the time."""
    known = values[np.isfinite(values)]
    return len(known) > 1 and bool(np.abs(np.diff(known)).mean() > _BAND_STROKE * np.ptp(known))


def _between(xs: Array, ys: Array, x0: float, x1: float) -> Range | None:
    """Return the lowest and the highest value of a line between `x0` and `x1`, also where it enters
    and leaves this range; None if it has no value there."""
    if not len(xs) or xs[-1] < x0 or xs[0] > x1:
        return None
    inside = ys[(xs >= x0) & (xs <= x1)]
    ends = np.interp([max(x0, xs[0]), min(x1, xs[-1])], xs, ys)
    values = np.append(inside, ends)
    values = values[np.isfinite(values)]
    return (float(values.min()), float(values.max())) if len(values) else None
