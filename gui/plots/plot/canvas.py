"""The drawing area of a plot: axes, visible range, curves, markers and crosshair."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, Qt, Signal
from PySide6.QtGui import QFocusEvent, QHelpEvent, QWheelEvent
from PySide6.QtWidgets import QToolTip, QWidget

from gui.plots.data.best_point import BestMarker
from gui.plots.data.growing_pyramid import Array
from gui.plots.data.ranges import Range, padded
from gui.plots.data.run_timeline import Marker
from gui.plots.data.x_axis import XScale
from gui.plots.plot.axes import AXIS_WIDTH, Axis, PlotArea
from gui.plots.plot.crosshair import Crosshair
from gui.plots.plot.curve import Curve, set_origin
from gui.plots.plot.gap_ticks import GapTicks
from gui.plots.plot.markers import NEAR, Markers
from gui.style.theme import Theme
from gui.widgets.plain_text import plain_tip

_X_PADDING = (0.012, 0.03)
_Y_PADDING = 0.06
_TOP_MARGIN, _BOTTOM_MARGIN = 13, 8
"""Minimum space (logical pixels) above the highest and below the lowest value: the markers and half
a tick label need it."""

_REVEAL_MARGIN = 0.1
"""`reveal` places a position at this distance from the edge, as a part of the visible range."""

_AXIS_HEIGHT = 20
_TICK_FONT = 11
_BEST_MARKER_SIZE = 13


class Canvas(pg.PlotWidget):  # type: ignore[misc]  # pyqtgraph has no types
    """A PlotWidget without pyqtgraph's automatic range, menu and buttons."""

    hovered = Signal(object)
    """X position under the mouse (float), or None after the mouse has left."""

    moved = Signal(float, float)
    """First and last visible x position, after the user has moved the view."""

    fit_requested = Signal()
    focused = Signal(bool)
    """Whether this plot has the keyboard focus."""

    stale = Signal()
    """The visible range or the size in pixels has changed: the curves must be drawn again."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        self.area = PlotArea()
        left, bottom = Axis("left"), Axis("bottom")
        super().__init__(
            parent, viewBox=self.area, axisItems={"left": left, "bottom": bottom}
        )  # fmt: skip
        # The default mode clips to several rectangles, which is 7 to 18 times slower on a screen
        # with many pixels.
        self.setViewportUpdateMode(self.ViewportUpdateMode.BoundingRectViewportUpdate)
        self.hideButtons()
        self.setAccessibleDescription(
            self.tr(
                "Left and Right go from point to point and say the values there, Home and End go "
                "to the ends, M to the next mark. Plus and minus zoom, Ctrl and the arrow keys "
                "move the view, F or a double click shows everything, Escape leaves."
            )
        )
        self._axes = (left, bottom)
        left.setWidth(AXIS_WIDTH)
        bottom.setHeight(_AXIS_HEIGHT)
        font = self.font()
        font.setPixelSize(_TICK_FONT)
        for axis in self._axes:
            axis.enableAutoSIPrefix(False)
            axis.setStyle(tickFont=font, tickLength=0, maxTickLevel=0, autoExpandTextSpace=False)
        bottom.setStyle(tickAlpha=0)  # ticks of length 0 would still be drawn as dots
        self.log_y = False
        self._best_item = pg.ScatterPlotItem(symbol="star", size=_BEST_MARKER_SIZE, antialias=True)
        self._best_item.setZValue(10)
        self.addItem(self._best_item)
        self._x_scale = XScale()
        self._best_markers: Sequence[BestMarker] = ()
        self.gap_ticks = GapTicks(self.area)
        self.markers = Markers(self.area)
        self.crosshair = Crosshair(self)
        self.set_theme(theme)
        self.area.sigRangeChangedManually.connect(self._moved)
        self.area.sigXRangeChanged.connect(self.stale)
        self.area.sigResized.connect(self.stale)
        self.area.fit_requested.connect(self.fit_requested)
        self.scene().sigMouseMoved.connect(self._mouse_moved)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom while Ctrl is held; otherwise the scroll area of the panel gets the event."""
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            super().wheelEvent(event)
        else:
            event.ignore()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Emit `focused`, unless a mouse click brought the focus."""
        super().focusInEvent(event)
        self.focused.emit(event.reason() != Qt.FocusReason.MouseFocusReason)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Emit that the focus has left."""
        super().focusOutEvent(event)
        self.focused.emit(False)

    def zoom_x(self, part: float, around: float | None = None) -> None:
        """Show `part` of the visible x range (above 1: zoom out). The position `around` does not
        move; if it is None or not visible, the middle does not move."""
        (first, last), _ = self.area.viewRange()
        if around is None or not first <= around <= last:
            around = (first + last) / 2
        self.show_x((around - (around - first) * part, around + (last - around) * part))
        self._moved()

    def zoom_y(self, part: float) -> None:
        """Show `part` of the visible value range around its middle. A part above 1 zooms out."""
        _, (low, high) = self.area.viewRange()
        margin = (high - low) * (1 - part) / 2
        self.area.setYRange(low + margin, high - margin, padding=0)
        self._moved()

    def reveal(self, x: float) -> None:
        """Move the view just far enough to show the position `x`."""
        (first, last), _ = self.area.viewRange()
        if first <= x <= last:
            return
        margin = (last - first) * _REVEAL_MARGIN
        shift = x + margin - last if x > last else x - margin - first
        self.show_x((first + shift, last + shift))
        self._moved()

    def pan(self, right: float, up: float) -> None:
        """Move the view by these parts of the visible range."""
        (first, last), (low, high) = self.area.viewRange()
        self.area.translateBy(x=right * (last - first), y=up * (high - low))
        self._moved()

    def viewportEvent(self, event: QEvent) -> bool:
        """Show the tooltip of the marker under the mouse."""
        if isinstance(event, QHelpEvent) and event.type() is QEvent.Type.ToolTip:
            position = self.area.mapFromScene(self.mapToScene(event.pos()))
            inside = self.area.rect().contains(QPointF(position))
            QToolTip.showText(
                event.globalPos(), plain_tip(self._mark_text_near(position.x()) if inside else "")
            )
            return True
        return bool(super().viewportEvent(event))

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of `theme`."""
        self.setBackground(theme.card)
        for axis in self._axes:
            axis.set_theme(theme)
        self.area.set_theme(theme)
        self.gap_ticks.set_theme(theme)
        self.markers.set_theme(theme)
        self.crosshair.set_theme(theme)
        self._best_item.setPen(pg.mkPen(theme.card))

    def set_log_y(self, log: bool) -> None:
        """Use a logarithmic or a linear value axis."""
        self.log_y = log
        self.getAxis("left").setLogMode(False, log)

    def set_x_scale(self, scale: XScale) -> None:
        """Label the horizontal axis for `scale`, and place the markers on it."""
        self._x_scale = scale
        self._axes[1].set_kind(scale.kind)
        self.set_markers(self.markers.markers)

    def set_markers(self, markers: Sequence[Marker]) -> None:
        """Mark these moments of the run."""
        steps, times = [each.step for each in markers], [each.time for each in markers]
        self.markers.show_markers(markers, self._x_scale.x(np.array(steps), np.array(times)))

    def add_curve(self, curve: Curve) -> None:
        """Add the items of `curve` to the drawing."""
        for item in curve.items:
            self.addItem(item)

    def remove_curve(self, curve: Curve) -> None:
        """Remove the items of `curve` from the drawing."""
        for item in curve.items:
            self.removeItem(item)

    def show_x(self, positions: Range) -> None:
        """Show exactly this x range."""
        self.area.setXRange(*positions, padding=0)

    def show_all(self, positions: Range, values: Range) -> None:
        """Show these x and value ranges (values above 0 on a logarithmic axis) with some
        padding."""
        if self.log_y:
            values = math.log10(values[0]), math.log10(values[1])
        inside = max(self.area.height() - _TOP_MARGIN - _BOTTOM_MARGIN, 4 * _TOP_MARGIN)
        below, above = (
            max(_Y_PADDING, margin / inside) for margin in (_BOTTOM_MARGIN, _TOP_MARGIN)
        )
        self.area.setRange(
            xRange=padded(positions, *_X_PADDING), yRange=padded(values, below, above), padding=0
        )

    def draw(self, curve: Curve, *, show_raw: bool) -> Range | None:
        """Draw the visible part of `curve`. Return the steps between which the view needs more
        points, or None."""
        first, last, pixels = self._visible_range()
        curve.draw(first, last, pixels, raw=show_raw, log=self.log_y)
        return curve.missing_steps(first, last, pixels) if curve.visible else None

    def draw_gaps(self, curves: Sequence[Curve]) -> None:
        """Draw the gap ticks of `curves`."""
        first, last, pixels = self._visible_range()
        self.gap_ticks.show_positions([curve.gaps(first, last, pixels) for curve in curves])

    def draw_best_markers(self, best_markers: Sequence[BestMarker]) -> None:
        """Draw exactly these best markers."""
        self._best_markers = shown = [
            marker for marker in best_markers if not (self.log_y and marker.value <= 0)
        ]
        if not shown:
            self._best_item.clear()
            return
        first = shown[0].x
        set_origin(self._best_item, first)
        self._best_item.setData(
            [marker.x - first for marker in shown],
            [math.log10(marker.value) if self.log_y else marker.value for marker in shown],
            brush=[pg.mkBrush(marker.colour) for marker in shown],
        )

    def mark_positions(self) -> Array:
        """Return the x positions of all markers and best markers, float64 of shape (n,),
        unsorted."""
        positions: Array = np.append(
            self.markers.positions, [marker.x for marker in self._best_markers]
        )
        return positions[~np.isnan(positions)]

    def mark_text_at(self, x: float) -> str:
        """Return the texts of the marks at or near the position `x`, one line for each mark."""
        return self._mark_text_near(self._pixel(x))

    def pixels(self, count: float) -> float:
        """Convert `count` logical pixels to a distance on the horizontal axis."""
        (first, last), _ = self.area.viewRange()
        return count * float(last - first) / max(float(self.area.width()), 1.0)

    def leaveEvent(self, event: QEvent) -> None:
        """Emit that the mouse has left."""
        super().leaveEvent(event)
        self.hovered.emit(None)

    def _visible_range(self) -> tuple[float, float, int]:
        (first, last), _ = self.area.viewRange()
        return first, last, max(1, int(self.area.width() * self.devicePixelRatioF()))

    def _pixel(self, x: float) -> float:
        (first, _), _ = self.area.viewRange()
        return (x - float(first)) / self.pixels(1.0)

    def _mark_text_near(self, pixel: float) -> str:
        gap = self.gap_ticks.near(pixel)
        lines = [self.markers.text_at(pixel)]
        near = (
            marker for marker in self._best_markers if abs(self._pixel(marker.x) - pixel) <= NEAR
        )
        lines += [marker.text for marker in near]
        if gap is not None:
            where = self._x_scale.describe(gap, math.nan)
            lines.append(self.tr("Not a number at {where}").format(where=where))
        return "\n".join(line for line in lines if line)

    def _moved(self) -> None:
        (first, last), _ = self.area.viewRange()
        self.moved.emit(first, last)

    def _mouse_moved(self, position: object) -> None:
        inside = self.area.sceneBoundingRect().contains(position)
        self.hovered.emit(self.area.mapSceneToView(position).x() if inside else None)
