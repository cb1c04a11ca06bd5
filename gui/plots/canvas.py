"""Where curves are drawn: the axes, what is in sight of them, the best value and the crosshair."""

from __future__ import annotations

import math

import pyqtgraph as pg
from PySide6.QtCore import QEvent, Qt, Signal
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QWidget

from gui.plots.axes import Axis, PlotArea
from gui.plots.crosshair import Crosshair
from gui.plots.curve import Curve
from gui.plots.ranges import Range, padded
from gui.theme import Theme

_X_PADDING = (0.012, 0.03)
_Y_PADDING = (0.06, 0.06)
_AXIS_WIDTH = 42
_AXIS_HEIGHT = 20
_TICK_FONT = 11
_STAR = 13


class Canvas(pg.PlotWidget):  # type: ignore[misc]  # pyqtgraph has no types
    """A PlotWidget without its automatic range, menu and buttons."""

    hovered = Signal(object)
    """Step under the mouse (float), or None when the mouse has left."""

    moved = Signal(float, float)
    """First and last step in sight, after the user has moved the view."""

    fit_requested = Signal()
    stale = Signal()
    """What is in sight has changed, or the pixels it is drawn on."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        self.area = PlotArea()
        left, bottom = Axis("left"), Axis("bottom")
        super().__init__(
            parent, viewBox=self.area, axisItems={"left": left, "bottom": bottom}
        )  # fmt: skip
        # The default mode clips to several rectangles: 7 to 18 times slower on a fine screen.
        self.setViewportUpdateMode(self.ViewportUpdateMode.BoundingRectViewportUpdate)
        self.hideButtons()
        self._axes = (left, bottom)
        left.setWidth(_AXIS_WIDTH)
        bottom.setHeight(_AXIS_HEIGHT)
        font = self.font()
        font.setPixelSize(_TICK_FONT)
        for axis in self._axes:
            axis.enableAutoSIPrefix(False)
            axis.setStyle(tickFont=font, tickLength=0, maxTickLevel=0, autoExpandTextSpace=False)
        bottom.setStyle(tickAlpha=0)  # ticks of no length would still be dots
        self.log_y = False
        self._star = pg.ScatterPlotItem(symbol="star", size=_STAR, antialias=True)
        self._star.setZValue(10)
        self.addItem(self._star)
        self.crosshair = Crosshair(self)
        self.set_theme(theme)
        self.area.sigRangeChangedManually.connect(self._moved)
        self.area.sigXRangeChanged.connect(self.stale)
        self.area.sigResized.connect(self.stale)
        self.area.fit_requested.connect(self.fit_requested)
        self.scene().sigMouseMoved.connect(self._mouse_moved)

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom with Ctrl held; else leave the wheel to the panel of plots, which scrolls."""
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            super().wheelEvent(event)
        else:
            event.ignore()

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of `theme`."""
        self.setBackground(theme.card)
        for axis in self._axes:
            axis.set_theme(theme)
        self.area.set_theme(theme)
        self.crosshair.set_theme(theme)
        self._star.setPen(pg.mkPen(theme.card))
        self._star.setBrush(pg.mkBrush(theme.warn))

    def set_log_y(self, log: bool) -> None:
        """Logarithmic values or linear ones."""
        self.log_y = log
        self.getAxis("left").setLogMode(False, log)

    def add_curve(self, curve: Curve) -> None:
        """Show the items of `curve`."""
        for item in curve.items:
            self.addItem(item)

    def remove_curve(self, curve: Curve) -> None:
        """Show them no more."""
        for item in curve.items:
            self.removeItem(item)

    def show_steps(self, steps: Range) -> None:
        """Bring these steps in sight, no more and no less."""
        self.area.setXRange(*steps, padding=0)

    def show_all(self, steps: Range, values: Range) -> None:
        """Bring these steps and values (above 0 on a logarithmic axis) in sight, with room."""
        if self.log_y:
            values = math.log10(values[0]), math.log10(values[1])
        self.area.setRange(
            xRange=padded(steps, *_X_PADDING), yRange=padded(values, *_Y_PADDING), padding=0
        )

    def draw(self, curve: Curve, *, show_raw: bool) -> None:
        """Draw the part of `curve` that is in sight."""
        (first, last), _ = self.area.viewRange()
        pixels = max(1, int(self.area.width() * self.devicePixelRatioF()))
        curve.draw(first, last, pixels, raw=show_raw, log=self.log_y)

    def draw_best(self, best: tuple[float, float] | None) -> None:
        """Put the star at this step and value, or nowhere."""
        if best is None or (self.log_y and best[1] <= 0):
            self._star.clear()
            return
        step, value = best
        self._star.setData([step], [math.log10(value) if self.log_y else value])

    def leaveEvent(self, event: QEvent) -> None:
        """Tell that the mouse has left."""
        super().leaveEvent(event)
        self.hovered.emit(None)

    def _moved(self) -> None:
        (first, last), _ = self.area.viewRange()
        self.moved.emit(first, last)

    def _mouse_moved(self, position: object) -> None:
        inside = self.area.sceneBoundingRect().contains(position)
        self.hovered.emit(self.area.mapSceneToView(position).x() if inside else None)
