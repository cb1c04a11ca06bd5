"""The vertical line that mouse and keys move, with a dot at each point that is read there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen
from PySide6.QtWidgets import QGraphicsObject

from gui.plots.plot.overlay import sharp
from gui.style.theme import Theme

_RADIUS = 3.5
_MARGIN = 6.0
"""Logical pixels around the line and the dots that they may touch."""


class Reading(NamedTuple):
    """What is read of one curve at the crosshair, or of its newest point."""

    name: str
    label: str
    value: str
    """The value of a point; of a block of points, its lowest and highest value."""

    smoothed: str
    """The moving average there; empty if the curve is not smoothed."""

    unit: str
    """The unit with a space before it; empty if there is none."""

    colour: str
    x: float
    """The position of the point."""

    at: str
    """The place of the point as the axis counts, `60`, where it is another one than that of the
    crosshair; else empty."""

    values: tuple[float, ...]
    """Where the dots stand on a linear value axis; NaN: nowhere."""


class Crosshair(QGraphicsObject):
    """Hidden until `show_at`; it paints in the pixels of the view."""

    def __init__(self, area: pg.ViewBox) -> None:
        super().__init__(area)
        self._area = area
        self.x_position = 0.0
        self.dots: list[tuple[float, float, str]] = []
        """X position, position on the value axis and colour of each dot."""

        self._line = self._card = QColor()
        self._rect = QRectF()
        self.setAcceptedMouseButtons(Qt.MouseButton.NoButton)
        self.setZValue(60)
        self.setVisible(False)
        area.sigRangeChanged.connect(self._follow)
        area.sigResized.connect(self._follow)

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of `theme`."""
        self._line, self._card = QColor(theme.muted), QColor(theme.card)
        self.update()

    def show_at(self, x: float, readings: Sequence[Reading], *, log_y: bool) -> None:
        """Show the line at `x`, and dots at the points of `readings`."""
        self.x_position = x
        self.dots = [
            (each.x, math.log10(value) if log_y else value, each.colour)
            for each in readings
            for value in dict.fromkeys(each.values)
            if math.isfinite(value) and (value > 0 or not log_y)
        ]
        self._move()
        self.setVisible(True)

    def disappear(self) -> None:
        """Hide the line and the dots."""
        if self.isVisible():
            self._erase()
            self.setVisible(False)

    def boundingRect(self) -> QRectF:
        """The line and the dots, with a margin."""
        return self._rect

    def paint(self, painter: QPainter, *_: Any) -> None:
        """Draw the line, and the dots over it."""
        x, width = sharp(painter, self._pixel(self.x_position, 0.0).x())
        painter.setPen(QPen(self._line, width))
        painter.drawLine(QPointF(x, 0.0), QPointF(x, self._area.height()))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        painter.setPen(QPen(self._card, 1.0))
        area = self._area.rect().adjusted(-_RADIUS, -_RADIUS, _RADIUS, _RADIUS)
        for place, value, colour in self.dots:
            middle = self._pixel(place, value)
            if area.contains(middle):
                painter.setBrush(QColor(colour))
                painter.drawEllipse(middle, _RADIUS, _RADIUS)

    def _pixel(self, x: float, y: float) -> QPointF:
        (first, last), (low, high) = self._area.viewRange()
        return QPointF(
            (x - first) / (last - first) * self._area.width(),
            (high - y) / (high - low) * self._area.height(),
        )

    def _follow(self) -> None:
        if self.isVisible():
            self._move()

    def _move(self) -> None:
        self._erase()
        self.prepareGeometryChange()
        pixels = [
            self._pixel(x, 0.0).x() for x in (self.x_position, *(dot[0] for dot in self.dots))
        ]
        left, right = max(min(pixels), 0.0), min(max(pixels), self._area.width())
        self._rect = QRectF(
            left - _MARGIN, -_MARGIN, right - left + 2 * _MARGIN, self._area.height() + 2 * _MARGIN
        )
        self.update()

    def _erase(self) -> None:
        """Qt does not always repaint where an item was before it moved: a trace would remain."""
        if self.isVisible():
            self._area.update(self._rect)
