"""Thin vertical lines over a plot where something happened to the run, each with a small shape."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF
from PySide6.QtWidgets import QGraphicsObject

from gui.plots.data.growing_pyramid import Array
from gui.plots.data.run_timeline import Marker, MarkerKind
from gui.plots.plot.sharp_line import sharp
from gui.style.theme import Theme

_SIZE = 4.0
"""Logical pixels from the middle of a shape to its edge."""

_ROOM = 2 * _SIZE + 2
"""Logical pixels that a shape takes, with some space."""

NEAR = 5.0
"""Logical pixels to the left and right of a marker in which the mouse finds it."""

_CLOSEST = 3.0
"""Logical pixels: of the markers of one kind that lie closer, only the first is drawn."""

_ROWS = 3
"""Shapes that would lie over each other stand below each other, up to so many."""

_MOST_TOLD = 4

_SHAPES = {
    MarkerKind.CHECKPOINT: ((0, -1), (1, 0), (0, 1), (-1, 0)),
    MarkerKind.RESTART: ((-0.8, -1), (1, 0), (-0.8, 1)),
    MarkerKind.EDIT: (
        (-0.35, -1), (0.35, -1), (0.35, -0.35), (1, -0.35), (1, 0.35), (0.35, 0.35),
        (0.35, 1), (-0.35, 1), (-0.35, 0.35), (-1, 0.35), (-1, -0.35), (-0.35, -0.35),
    ),
    MarkerKind.PAUSE: ((-0.8, -1), (0.8, -1), (0.8, 1), (-0.8, 1)),
    MarkerKind.ALARM: ((0, -1), (1, 0.9), (-1, 0.9)),
}  # fmt: skip
"""Corners in parts of the size: a diamond, an arrow onwards, a plus, a block, a warning
triangle."""


class Markers(QGraphicsObject):
    """Lies over a view in its pixels, so that shapes and lines keep their size and place."""

    def __init__(self, area: pg.ViewBox) -> None:
        super().__init__(area)
        self._area = area
        self.markers: Sequence[Marker] = ()
        self._places: Array = np.empty(0)
        self._colours: dict[MarkerKind, QColor] = {}
        self.setAcceptedMouseButtons(Qt.MouseButton.NoButton)
        self.setZValue(50)
        area.sigRangeChanged.connect(self._redraw)
        area.sigResized.connect(self._resized)

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of `theme`."""
        names = {
            MarkerKind.CHECKPOINT: theme.ok,
            MarkerKind.RESTART: theme.accent,
            MarkerKind.EDIT: theme.warn,
            MarkerKind.PAUSE: theme.muted,
            MarkerKind.ALARM: theme.bad,
        }
        self._colours = {kind: QColor(name) for kind, name in names.items()}
        self.update()

    def show_markers(self, markers: Sequence[Marker], places: Array) -> None:
        """Show exactly these, each at its place on the horizontal axis (NaN: nowhere)."""
        self.markers, self._places = markers, places
        self.update()

    @property
    def places(self) -> Array:
        """Where they stand on the horizontal axis; NaN: nowhere."""
        return self._places

    def text_at(self, pixel: float) -> str:
        """What happened near this pixel of the view, a line each; empty: nothing."""
        near = [
            marker.text
            for marker, place in zip(self.markers, self._pixels(), strict=True)
            if abs(place - pixel) <= NEAR
        ]
        more = len(near) - _MOST_TOLD
        rest = [self.tr("and {count} more").format(count=more)] if more > 0 else []
        return "\n".join(near[:_MOST_TOLD] + rest)

    def boundingRect(self) -> QRectF:
        """The whole view."""
        return QRectF(self._area.rect())

    def paint(self, painter: QPainter, *_: Any) -> None:
        """Draw the lines, and the shapes at the top."""
        height = self._area.height()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        last: dict[MarkerKind, float] = {}
        ends = [-math.inf] * _ROWS
        for x, marker in self._in_sight():
            if x - last.get(marker.kind, -math.inf) < _CLOSEST:
                continue
            last[marker.kind] = x
            row = next((row for row in range(_ROWS) if x - ends[row] > _ROOM), _ROWS - 1)
            ends[row] = x
            top = 1 + row * _ROOM
            colour = self._colours[marker.kind]
            faint = QColor(colour)
            faint.setAlpha(90)
            line, width = sharp(painter, x)
            painter.setPen(QPen(faint, width))
            painter.drawLine(QPointF(line, top + 2 * _SIZE + 1), QPointF(line, height))
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colour)
            shape = [
                QPointF(line + _SIZE * right, top + _SIZE * (down + 1))
                for right, down in _SHAPES[marker.kind]
            ]
            painter.drawPolygon(QPolygonF(shape))

    def _in_sight(self) -> list[tuple[float, Marker]]:
        """Markers with their pixels, from left to right."""
        width = self._area.width()
        pairs = zip(self._pixels(), self.markers, strict=True)
        return sorted((pair for pair in pairs if 0 <= pair[0] <= width), key=lambda pair: pair[0])

    def _pixels(self) -> list[float]:
        (x0, x1), _ = self._area.viewRange()
        pixels = (self._places - x0) / (x1 - x0) * self._area.width()
        return [float(pixel) for pixel in pixels]

    def _redraw(self) -> None:
        if self.markers:
            self.update()

    def _resized(self) -> None:
        self.prepareGeometryChange()
        self.update()
