"""Short ticks at the lower edge of a plot where a value of a curve is not a number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QLineF, Qt
from PySide6.QtGui import QColor, QPainter, QPen

from gui.plots.data.growing_pyramid import Array
from gui.plots.plot.overlay import Overlay
from gui.style.theme import Theme

_HEIGHT = 9.0
_WIDTH = 2.0
"""Logical pixels."""

_NEAR = 4.0
"""The mouse finds a tick within this distance (logical pixels)."""


class GapTicks(Overlay):
    """One tick for each gap."""

    def __init__(self, area: pg.ViewBox) -> None:
        super().__init__(area, z=40)
        self._colour = QColor()

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of `theme`."""
        self._colour = QColor(theme.bad)
        self.update()

    def show_positions(self, positions: Sequence[Array]) -> None:
        """Draw ticks at exactly these x positions, arrays of float64; NaN: no tick."""
        self.positions = np.concatenate(positions) if positions else np.empty(0)
        self.update()

    def near(self, pixel: float) -> float | None:
        """Return the x position of the tick near this pixel of the view; None if there is none."""
        distances = np.abs(self._pixels() - pixel)
        if not len(distances) or not np.nanmin(distances, initial=np.inf) <= _NEAR:
            return None
        return float(self.positions[np.nanargmin(distances)])

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
