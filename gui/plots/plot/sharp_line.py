"""Vertical lines over a plot that are equally sharp wherever they stand."""

from __future__ import annotations

import math
from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen
from PySide6.QtWidgets import QGraphicsObject

_ROOM = 2.0
"""Logical pixels to both sides of a line that it may touch."""


def sharp(painter: QPainter, x: float) -> tuple[float, float]:
    """Place and width of a vertical line near `x` that covers whole pixels of the screen, at any
    scale: between two of them it would be two faint ones."""
    to_screen = painter.deviceTransform()
    pixels = max(1, math.floor(to_screen.m11()))
    left = math.floor(to_screen.map(QPointF(x, 0.0)).x())
    back, _ = to_screen.inverted()
    return back.map(QPointF(left + pixels / 2, 0.0)).x(), pixels / to_screen.m11()


class SharpLine(QGraphicsObject):
    """A dashed line from top to bottom of a view, at a place of its horizontal axis. It lies over
    the view in its pixels."""

    def __init__(self, area: pg.ViewBox) -> None:
        super().__init__(area)
        self._area = area
        self._place = 0.0
        self._colour = QColor()
        self.setAcceptedMouseButtons(Qt.MouseButton.NoButton)
        self.setZValue(60)
        self.setVisible(False)
        area.sigRangeChanged.connect(self._move)
        area.sigResized.connect(self._resized)

    def set_colour(self, colour: str) -> None:
        """Colour it."""
        self._colour = QColor(colour)
        self.update()

    def stand_at(self, place: float) -> None:
        """Stand there, and be seen."""
        self._place = place
        self._move()
        self.setVisible(True)

    def leave(self) -> None:
        """Be seen no more."""
        self._erase()
        self.setVisible(False)

    def boundingRect(self) -> QRectF:
        """The line with some room."""
        return QRectF(-_ROOM, 0.0, 2 * _ROOM, self._area.height())

    def paint(self, painter: QPainter, *_: Any) -> None:
        """Draw it."""
        x, width = sharp(painter, 0.0)
        painter.setPen(QPen(self._colour, width, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(x, 0.0), QPointF(x, self._area.height()))

    def _move(self) -> None:
        (first, last), _ = self._area.viewRange()
        self._erase()
        self.setX((self._place - first) / (last - first) * self._area.width())

    def _erase(self) -> None:
        """Qt does not always remember where an item was painted that moves: a trace would stay."""
        self._area.update(self.mapRectToParent(self.boundingRect()))

    def _resized(self) -> None:
        self.prepareGeometryChange()
        self._move()
