"""Thin vertical lines with small shapes mark the events of the run in a plot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF

from gui.plots.data.growing_pyramid import Array
from gui.plots.data.run_timeline import Marker, MarkerKind
from gui.plots.plot.overlay import Overlay
from gui.plots.plot.sharp_line import sharp
from gui.style.theme import Theme

_SIZE = 4.0
"""Logical pixels from the middle of a shape to its edge."""

_SHAPE_SPACE = 2 * _SIZE + 2
"""Logical pixels that a shape needs, with a margin."""

NEAR = 5.0
"""The mouse finds a marker within this distance (logical pixels)."""

_MIN_DISTANCE = 3.0
"""If two markers of one kind are closer than this (logical pixels), only the first is drawn."""

_ROWS = 3
"""Shapes that would overlap are drawn in up to this many rows."""

_MAX_LISTED = 4

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
"""Corners relative to the size: a diamond, an arrow to the right, a plus, a block, a warning
triangle."""


class Markers(Overlay):
    """One line and one shape for each marker."""

    def __init__(self, area: pg.ViewBox) -> None:
        super().__init__(area, z=50)
        self.markers: Sequence[Marker] = ()
        self._colours: dict[MarkerKind, QColor] = {}

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of `theme`."""
        names = {
            MarkerKind.CHECKPOINT: theme.ok,
            MarkerKind.RESTART: theme.accent,
            MarkerKind.EDIT: theme.warn,
            MarkerKind.PAUSE: theme.muted,
            MarkerKind.ALARM: theme.bad,
        }
        self._colours = {kind: QColor(name) for kind, name in names.items()}
        self.update()

    def show_markers(self, markers: Sequence[Marker], positions: Array) -> None:
        """Show exactly these markers. `positions` are their x positions, float64 of shape (n,);
        NaN: none."""
        self.markers, self.positions = markers, positions
        self.update()

    def text_at(self, pixel: float) -> str:
        """Return what happened near this pixel of the view, one line per event; empty: nothing."""
        near = [
            marker.text
            for marker, position in zip(self.markers, self._pixels(), strict=True)
            if abs(position - pixel) <= NEAR
        ]
        more = len(near) - _MAX_LISTED
        rest = [self.tr("and {count} more").format(count=more)] if more > 0 else []
        return "\n".join(near[:_MAX_LISTED] + rest)

    def paint(self, painter: QPainter, *_: Any) -> None:
        """Draw the lines, and the shapes at the top."""
        height = self._area.height()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        last: dict[MarkerKind, float] = {}
        ends = [-math.inf] * _ROWS
        for x, marker in self._visible_markers():
            if x - last.get(marker.kind, -math.inf) < _MIN_DISTANCE:
                continue
            last[marker.kind] = x
            row = next((row for row in range(_ROWS) if x - ends[row] > _SHAPE_SPACE), _ROWS - 1)
            ends[row] = x
            top = 1 + row * _SHAPE_SPACE
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

    def _visible_markers(self) -> list[tuple[float, Marker]]:
        """Return the visible markers with their pixels, from left to right."""
        width = self._area.width()
        pairs = zip(self._pixels().tolist(), self.markers, strict=True)
        return sorted((pair for pair in pairs if 0 <= pair[0] <= width), key=lambda pair: pair[0])
