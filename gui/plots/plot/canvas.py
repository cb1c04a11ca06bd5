"""The drawing area of a plot: axes, visible range, curves, markers and crosshair."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QEvent, QPointF, Qt, Signal
from PySide6.QtGui import QCursor, QEnterEvent, QFocusEvent, QHideEvent, QMouseEvent, QWheelEvent
from PySide6.QtWidgets import QWidget

from gui.plots.data.best_point import BestMarker
from gui.plots.data.growing_pyramid import Array
from gui.plots.data.ranges import Range, padded, spread, union
from gui.plots.data.run_timeline import Marker
from gui.plots.data.x_axis import XScale
from gui.plots.plot.axes import AXIS_WIDTH, Axis
from gui.plots.plot.crosshair import Crosshair, Reading
from gui.plots.plot.curve import Curve, show_item
from gui.plots.plot.gap_ticks import GapTicks
from gui.plots.plot.markers import AXIS_STRIP, NEAR, Markers
from gui.plots.plot.plot_area import PlotArea
from gui.style.theme import Theme

_X_PADDING = (0.012, 0.03)
_Y_PADDING = 0.06
_STILL = 0.04
"""How far the ends of a value axis may be from those of a fit, as a part of it: less than the
padding."""

_TOP_MARGIN, _BOTTOM_MARGIN = 13, 8
"""Minimum space (logical pixels) above the highest and below the lowest value: the markers and half
a tick label need it."""

_REVEAL_MARGIN = 0.1
"""`reveal` places a position at this distance from the edge, as a part of the visible range."""

_AXIS_HEIGHT = 20
_TICK_FONT = 11
_BEST_MARKER_SIZE = 13
_BEST_NEAR = 8.0
"""The mouse finds a best marker within this distance (logical pixels)."""

_MODIFIERS = Qt.KeyboardModifier


class Canvas(pg.PlotWidget):  # type: ignore[misc]  # pyqtgraph has no types
    """A PlotWidget without pyqtgraph's automatic range, menu and buttons."""

    hovered = Signal(object)
    """X position under the mouse (float), or None after the mouse has left."""

    moved = Signal(float, float)
    """First and last visible x position, after the user has moved the view."""

    values_moved = Signal()
    """The user has chosen the visible values."""

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
            "Left and Right go from point to point and say the values there, Home and End go "
            "to the ends, M to the next mark. Plus and minus zoom, Ctrl and the arrow keys "
            "move the view, F or a double click shows everything, Escape leaves. A drag, or "
            "Ctrl and the wheel, zooms along the horizontal axis, with Shift along the values. "
            "Enter, or a right click, asks what made the step there."
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
        self._pointer: QPointF | None = None
        """Where the mouse is, in pixels of the view; None: elsewhere."""

        self._hovered: float | None = None
        """The position that the mouse was told to be at."""

        self.gap_ticks = GapTicks(self.area)
        self.markers = Markers(self.area)
        self.crosshair = Crosshair(self.area)
        self.set_theme(theme)
        self.area.sigRangeChangedManually.connect(self._moved_by_mouse)
        self.area.sigXRangeChanged.connect(self.stale)
        self.area.sigXRangeChanged.connect(self._view_moved)
        self.area.sigResized.connect(self.stale)
        self.area.sigResized.connect(self._resized)
        self.area.fit_requested.connect(self.fit_requested)

    def enterEvent(self, event: QEnterEvent) -> None:
        """The mouse may stand still once it is here, as after a page has changed below it."""
        super().enterEvent(event)
        self._mouse_moved(self.mapToScene(event.position().toPoint()))

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Emit where the mouse is. pyqtgraph leaves out moves that follow each other closely, also
        the one that leaves the area."""
        super().mouseMoveEvent(event)
        self._mouse_moved(self.mapToScene(event.position().toPoint()))

    def is_under(self, pointer: QPointF) -> bool:
        """Whether this place on the screen is a visible part of the canvas."""
        view = self.viewport()
        region = view.visibleRegion()
        return bool(region.contains(view.mapFromGlobal(pointer).toPoint()))

    def find_pointer(self, pointer: QPointF) -> None:
        """Follow the mouse, which stood still at this place on the screen while the canvas was
        moved."""
        if self.is_under(pointer):
            self._mouse_moved(self.mapToScene(self.mapFromGlobal(pointer).toPoint()))
        else:
            self._leave()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom while Ctrl or Shift is held; otherwise the scroll area of the panel gets the
        event."""
        if event.modifiers() & (_MODIFIERS.ControlModifier | _MODIFIERS.ShiftModifier):
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
        self.area.zoomed_x.emit()
        self.show_x((around - (around - first) * part, around + (last - around) * part))
        self._moved()

    def zoom_y(self, part: float) -> None:
        """Show `part` of the visible value range around its middle. A part above 1 zooms out."""
        _, (low, high) = self.area.viewRange()
        margin = (high - low) * (1 - part) / 2
        self.area.setYRange(low + margin, high - margin, padding=0)
        self.values_moved.emit()

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
        if right:
            self._moved()
        if up:
            self.values_moved.emit()

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
        if self.markers.note:
            self.stale.emit()  # the mark under the mouse may have gone

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

    def show_values(self, values: Range) -> None:
        """Show these positions on the value axis with some padding. An axis that would move by less
        than its padding holds still, so that its labels can be read while the view moves along
        x."""
        low, high = self._padded(values if self.log_y else spread(values))
        _, (first, last) = self.area.viewRange()
        if max(abs(low - first), abs(high - last)) > _STILL * (last - first):
            self.area.setYRange(low, high, padding=0)

    def show_all(self, positions: Range, values: Range) -> None:
        """Show these x and value ranges (values above 0 on a logarithmic axis) with some
        padding."""
        values = spread(values)
        if self.log_y:
            values = math.log10(values[0]), math.log10(values[1])
        self.area.setRange(
            xRange=padded(positions, *_X_PADDING), yRange=self._padded(values), padding=0
        )

    def values_in_sight(self, curves: Sequence[Curve]) -> Range | None:
        """Return the lowest and the highest position on the value axis that is drawn in the visible
        x range; None if nothing is drawn there."""
        (first, last), _ = self.area.viewRange()
        return union(curve.values_in_sight(first, last) for curve in curves)

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
        first = shown[0].x if shown else 0.0
        show_item(self._best_item, first, is_shown=bool(shown))
        if not shown:
            return
        self._best_item.setData(
            [marker.x - first for marker in shown],
            [self.height_of(marker.value) for marker in shown],
            brush=[pg.mkBrush(marker.colour) for marker in shown],
        )

    @property
    def best_markers(self) -> Sequence[BestMarker]:
        """The best markers that are drawn."""
        return self._best_markers

    def height_of(self, value: float) -> float:
        """Return where a value (above 0 on a logarithmic axis) stands on the vertical axis."""
        return math.log10(value) if self.log_y else value

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

    def show_crosshair(self, x: float | None, readings: Sequence[Reading], marked: str) -> bool:
        """Show the crosshair at the position `x`, with dots at the points of `readings`, and the
        text `marked`, or that of the mark under the mouse. Return whether it is visible: it is not
        if `x` is None or out of sight."""
        (first, last), _ = self.area.viewRange()
        if x is None or not first <= x <= last:
            self.crosshair.disappear()
            self.markers.show_note(0.0, "")
            return False
        self.crosshair.show_at(x, readings, log_y=self.log_y)
        self.markers.show_note(x, marked or self._mark_text_under_mouse())
        return True

    def pixels(self, count: float) -> float:
        """Convert `count` logical pixels to a distance on the horizontal axis."""
        (first, last), _ = self.area.viewRange()
        return count * float(last - first) / max(float(self.area.width()), 1.0)

    def leaveEvent(self, event: QEvent) -> None:
        """Emit that the mouse has left."""
        super().leaveEvent(event)
        self._leave()

    def hideEvent(self, event: QHideEvent) -> None:
        """A plot that disappears under the mouse is left, too."""
        super().hideEvent(event)
        self._leave()

    def _leave(self) -> None:
        if self._pointer is not None:
            self._pointer = None
            self.hovered.emit(None)

    def _visible_range(self) -> tuple[float, float, int]:
        (first, last), _ = self.area.viewRange()
        return first, last, max(1, int(self.area.width() * self.devicePixelRatioF()))

    def _pixel(self, x: float) -> float:
        (first, _), _ = self.area.viewRange()
        return (x - float(first)) / self.pixels(1.0)

    def _mark_text_near(self, pixel: float) -> str:
        gap = self.gap_ticks.near(pixel)
        best = (each for each in self._best_markers if abs(self._pixel(each.x) - pixel) <= NEAR)
        lines = [self.markers.text_at(pixel), *(each.text for each in best)]
        if gap is not None:
            lines.append(self._gap_text(gap))
        return "\n".join(line for line in lines if line)

    def _mark_text_under_mouse(self) -> str:
        """Return the texts of the marks that the mouse points at: near the axis of the ticks there,
        elsewhere of the lines and stars."""
        if self._pointer is None:
            return ""
        x, y = self._pointer.x(), self._pointer.y()
        on_axis = y >= self.area.height() - AXIS_STRIP
        lines = [self.markers.text_at(x, ticks=on_axis and self.markers.shows_checkpoints)]
        for each in self._best_markers:
            value = math.log10(each.value) if self.log_y else each.value
            star = self.area.mapFromView(QPointF(each.x, value))
            if math.hypot(star.x() - x, star.y() - y) <= _BEST_NEAR:
                lines.append(each.text)
        gap = self.gap_ticks.near(x) if on_axis else None
        if gap is not None:
            lines.append(self._gap_text(gap))
        return "\n".join(line for line in lines if line)

    def _gap_text(self, x: float) -> str:
        where = self._x_scale.describe(x, math.nan)
        return str(f"Not a number at {where}")

    def _padded(self, values: Range) -> Range:
        inside = max(self.area.height() - _TOP_MARGIN - _BOTTOM_MARGIN, 4 * _TOP_MARGIN)
        below, above = (
            max(_Y_PADDING, margin / inside) for margin in (_BOTTOM_MARGIN, _TOP_MARGIN)
        )
        return padded(values, below, above)

    def _moved(self) -> None:
        (first, last), _ = self.area.viewRange()
        self.moved.emit(first, last)

    def _moved_by_mouse(self, axes: Sequence[bool]) -> None:
        along_x, along_y = axes
        if along_x:
            self._moved()
        if along_y:
            self.values_moved.emit()

    def _mouse_moved(self, position: QPointF) -> None:
        if not self.area.sceneBoundingRect().contains(position):
            self._leave()
            return
        self._pointer = self.area.mapFromScene(position)
        self._hover()

    def _view_moved(self) -> None:
        """The mouse that stands still is at another position now, unless keys have taken the
        crosshair over."""
        if self._pointer is not None and self.crosshair.x_position == self._hovered:
            self._hover()

    def _resized(self) -> None:
        """A mouse that stands still is at another place in the plot now."""
        if self._pointer is not None:
            self.find_pointer(QPointF(QCursor.pos()))

    def _hover(self) -> None:
        self._hovered = self.area.mapToView(self._pointer).x()
        self.hovered.emit(self._hovered)
