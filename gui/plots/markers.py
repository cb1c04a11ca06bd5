"""Thin vertical lines over a plot where something happened to the run, each with a small shape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF
from PySide6.QtWidgets import QGraphicsObject

from gui.plots.pyramid import Array
from gui.plots.run_course import Marker, MarkerKind
from gui.theme import Theme

_SIZE = 4.0
"""Logical pixels from the middle of a shape to its edge."""

_NEAR = 5.0
"""Logical pixels to the left and right of a marker in which the mouse finds it."""

_CLOSEST = 3.0
"""Logical pixels: of the markers of one kind that lie closer, only the first is drawn."""

_MOST_TOLD = 4

_SHAPES = {
    MarkerKind.CHECKPOINT: ((0, -1), (1, 0), (0, 1), (-1, 0)),
    MarkerKind.RESTART: ((-0.8, -1), (1, 0), (-0.8, 1)),
    MarkerKind.PAUSE: ((-0.8, -1), (0.8, -1), (0.8, 1), (-0.8, 1)),
    MarkerKind.ALARM: ((0, -1), (1, 0.9), (-1, 0.9)),
}  # fmt: skip
"""Corners in parts of the size: a diamond, an arrow onwards, a block, a warning triangle."""


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
            MarkerKind.PAUSE: theme.muted,
            MarkerKind.ALARM: theme.bad,
        }
        self._colours = {kind: QColor(name) for kind, name in names.items()}
        self.update()

    def show_markers(self, markers: Sequence[Marker], places: Array) -> None:
        """Show exactly these, each at its place on the horizontal axis (NaN: nowhere)."""
        self.markers, self._places = markers, places
        self.update()

    def text_at(self, pixel: float) -> str:
        """What happened near this pixel of the view, a line each; empty: nothing."""
        near = [
            marker.text
            for marker, place in zip(self.markers, self._pixels(), strict=True)
            if abs(place - pixel) <= _NEAR
        ]
        more = len(near) - _MOST_TOLD
        return "\n".join(near[:_MOST_TOLD] + ([f"and {more} more"] if more > 0 else []))

    def boundingRect(self) -> QRectF:
        """The whole view."""
        return QRectF(self._area.rect())

    def paint(self, painter: QPainter, *_: Any) -> None:
        """Draw the lines, and the shapes at the top."""
        height = self._area.height()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        last: dict[MarkerKind, float] = {}
        for marker, x in zip(self.markers, self._pixels(), strict=True):
            known = 0 <= x <= self._area.width()
            if not known or abs(x - last.get(marker.kind, -_CLOSEST)) < _CLOSEST:
                continue
            last[marker.kind] = x
            colour = self._colours[marker.kind]
            faint = QColor(colour)
            faint.setAlpha(90)
            painter.setPen(QPen(faint, 1.0))
            painter.drawLine(QPointF(x, 2 * _SIZE + 2), QPointF(x, height))
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colour)
            shape = [
                QPointF(x + _SIZE * right, _SIZE * (down + 1) + 1)
                for right, down in _SHAPES[marker.kind]
            ]
            painter.drawPolygon(QPolygonF(shape))

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
