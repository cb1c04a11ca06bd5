"""Vertical lines over a plot that are equally sharp at every position."""

from __future__ import annotations

import math
from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen
from PySide6.QtWidgets import QGraphicsObject

_MARGIN = 2.0
"""Logical pixels to both sides of the line that it may touch."""


def sharp(painter: QPainter, x: float) -> tuple[float, float]:
    """Return position and width of a vertical line near `x` that covers whole device pixels at any
    scale. Between two pixels it would be painted as two pale lines."""
    to_screen = painter.deviceTransform()
    pixels = max(1, math.floor(to_screen.m11()))
    left = math.floor(to_screen.map(QPointF(x, 0.0)).x())
    back, _ = to_screen.inverted()
    return back.map(QPointF(left + pixels / 2, 0.0)).x(), pixels / to_screen.m11()


class SharpLine(QGraphicsObject):
    """A dashed line from top to bottom of a view, at an x position. It paints in the pixels of the
    view."""

    def __init__(self, area: pg.ViewBox) -> None:
        super().__init__(area)
        self._area = area
        self._position = 0.0
        self._colour = QColor()
        self.setAcceptedMouseButtons(Qt.MouseButton.NoButton)
        self.setZValue(60)
        self.setVisible(False)
        area.sigRangeChanged.connect(self._move)
        area.sigResized.connect(self._resized)

    def set_colour(self, colour: str) -> None:
        """Set the colour."""
        self._colour = QColor(colour)
        self.update()

    def show_at(self, position: float) -> None:
        """Move the line to the x position `position`, and show it."""
        self._position = position
        self._move()
        self.setVisible(True)

    def hide_line(self) -> None:
        """Hide the line."""
        self._erase()
        self.setVisible(False)

    def boundingRect(self) -> QRectF:
        """The line with a margin."""
        return QRectF(-_MARGIN, 0.0, 2 * _MARGIN, self._area.height())

    def paint(self, painter: QPainter, *_: Any) -> None:
        """Draw the line."""
        x, width = sharp(painter, 0.0)
        painter.setPen(QPen(self._colour, width, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(x, 0.0), QPointF(x, self._area.height()))

    def _move(self) -> None:
        (first, last), _ = self._area.viewRange()
        self._erase()
        self.setX((self._position - first) / (last - first) * self._area.width())

    def _erase(self) -> None:
        """Qt does not always repaint where an item was before it moved: a trace would remain."""
        self._area.update(self.mapRectToParent(self.boundingRect()))

    def _resized(self) -> None:
        self.prepareGeometryChange()
        self._move()
