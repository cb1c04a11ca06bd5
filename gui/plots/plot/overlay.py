"""A graphics item that paints over the whole view of a plot, at given x positions."""

from __future__ import annotations

import math

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QGraphicsObject

from gui.plots.data.growing_pyramid import Array


def sharp(painter: QPainter, x: float) -> tuple[float, float]:
    """Return position and width of a vertical line near `x` that covers whole device pixels at any
    scale. Between two pixels it would be painted as two pale lines."""
    to_screen = painter.deviceTransform()
    pixels = max(1, math.floor(to_screen.m11()))
    left = math.floor(to_screen.map(QPointF(x, 0.0)).x())
    back, _ = to_screen.inverted()
    return back.map(QPointF(left + pixels / 2, 0.0)).x(), pixels / to_screen.m11()


class Overlay(QGraphicsObject):
    """Subclasses paint in pixels of the view: shapes keep their size, and x positions of 1.7e9
    seconds stay exact."""

    def __init__(self, area: pg.ViewBox, z: float) -> None:
        """Items with a higher `z` cover those with a lower one."""
        super().__init__(area)
        self._area = area
        self.positions: Array = np.empty(0)
        """X positions, float64 of shape (n,); NaN: not drawn."""

        self.setAcceptedMouseButtons(Qt.MouseButton.NoButton)
        self.setZValue(z)
        area.sigRangeChanged.connect(self._redraw)
        area.sigResized.connect(self._resized)

    def boundingRect(self) -> QRectF:
        """The whole view."""
        return QRectF(self._area.rect())

    def _pixels(self) -> Array:
        """Return the pixel of each position, counted from the left edge of the view."""
        (first, last), _ = self._area.viewRange()
        pixels: Array = (self.positions - first) / (last - first) * self._area.width()
        return pixels

    def _redraw(self) -> None:
        if len(self.positions):
            self.update()

    def _resized(self) -> None:
        self.prepareGeometryChange()
        self.update()
