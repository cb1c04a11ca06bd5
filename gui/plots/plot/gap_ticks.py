"""Short ticks at the lower edge of a plot where a value of a curve is not a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QLineF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen
from PySide6.QtWidgets import QGraphicsObject

from gui.plots.data.growing_pyramid import Array
from gui.style.theme import Theme

_HEIGHT = 9.0
_WIDTH = 2.0
"""Logical pixels."""

_NEAR = 4.0
"""The mouse finds a tick within this distance (logical pixels)."""


class GapTicks(QGraphicsObject):
    """Paints in the pixels of the view, which is exact for x positions of 1.7e9 seconds, too."""

    def __init__(self, area: pg.ViewBox) -> None:
        super().__init__(area)
        self._area = area
        self._positions: Array = np.empty(0)
        self._colour = QColor()
        self.setAcceptedMouseButtons(Qt.MouseButton.NoButton)
        self.setZValue(40)
        area.sigRangeChanged.connect(self._redraw)
        area.sigResized.connect(self._resized)

    @property
    def positions(self) -> list[float]:
        """X positions of the ticks."""
        return [float(position) for position in self._positions]

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of `theme`."""
        self._colour = QColor(theme.bad)
        self.update()

    def show_positions(self, positions: Sequence[Array]) -> None:
        """Draw ticks at exactly these x positions, arrays of float64; NaN: no tick."""
        self._positions = np.concatenate(positions) if positions else np.empty(0)
        self.update()

    def near(self, pixel: float) -> float | None:
        """Return the x position of the tick near this pixel of the view; None if there is none."""
        distances = np.abs(self._pixels() - pixel)
        if not len(distances) or not np.nanmin(distances, initial=np.inf) <= _NEAR:
            return None
        return float(self._positions[np.nanargmin(distances)])

    def boundingRect(self) -> QRectF:
        """The whole view."""
        return QRectF(self._area.rect())

    def paint(self, painter: QPainter, *_: Any) -> None:
        """Draw the ticks."""
        height, width = self._area.height(), self._area.width()
        pen = QPen(self._colour, _WIDTH)
        pen.setCapStyle(Qt.PenCapStyle.FlatCap)
        painter.setPen(pen)
        painter.drawLines(
            [
                QLineF(x, height - _HEIGHT, x, height)
                for x in np.round(self._pixels()).tolist()
                if 0 <= x <= width
            ]
        )

    def _pixels(self) -> Array:
        (x0, x1), _ = self._area.viewRange()
        pixels: Array = (self._positions - x0) / (x1 - x0) * self._area.width()
        return pixels

    def _redraw(self) -> None:
        if len(self._positions):
            self.update()

    def _resized(self) -> None:
        self.prepareGeometryChange()
        self.update()
