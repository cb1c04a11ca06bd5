"""The marks of a plot: checkpoints as ticks on the axis, other events as lines with small shapes,
and the text of the mark that the mouse or the keys have found."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetricsF, QPainter, QPen, QPolygonF

from gui.plots.data.growing_pyramid import Array
from gui.plots.data.run_timeline import Marker, MarkerKind
from gui.plots.plot.overlay import Overlay, sharp
from gui.style.theme import Theme

_SIZE = 4.0
"""Logical pixels from the middle of a shape to its edge."""

_SHAPE_SPACE = 2 * _SIZE + 2
"""Logical pixels that a shape needs, with a margin."""

NEAR = 5.0
"""The mouse finds a marker within this distance (logical pixels)."""

AXIS_STRIP = 14.0
"""Height (logical pixels) of the strip above the axis in which the mouse finds the ticks."""

_MIN_DISTANCE = 3.0
"""If two markers of one kind are closer than this (logical pixels), only the first is drawn."""

_ROWS = 3
"""Shapes that would overlap are drawn in up to this many rows."""

_TICK = QRectF(-2.5, -7.0, 5.0, 7.0)
"""The tick of a checkpoint, from its position on the axis, in logical pixels: an odd width, because
the position is the middle of a pixel."""

_TICK_SPACE = 6.0
"""Logical pixels between two ticks; of those that are closer, the more important one is drawn."""

_STAR = 6.0
"""Logical pixels from the middle of the star to its points."""

_MAX_LISTED = 4
_NOTE_FONT = 11
_NOTE_MARGIN = 4.0
_NOTE_WIDTH = 340.0
"""The widest note, in logical pixels; longer texts are broken into lines."""

_SHAPES = {
    MarkerKind.RESTART: ((-0.8, -1), (1, 0), (-0.8, 1)),
    MarkerKind.EDIT: (
        (-0.35, -1), (0.35, -1), (0.35, -0.35), (1, -0.35), (1, 0.35), (0.35, 0.35),
        (0.35, 1), (-0.35, 1), (-0.35, 0.35), (-1, 0.35), (-1, -0.35), (-0.35, -0.35),
    ),
    MarkerKind.SHRUNK: ((-1, -0.9), (1, -0.9), (0, 1)),
    MarkerKind.PAUSE: ((-0.8, -1), (0.8, -1), (0.8, 1), (-0.8, 1)),
    MarkerKind.ALARM: ((0, -1), (1, 0.9), (-1, 0.9)),
}  # fmt: skip
"""Corners relative to the size: an arrow to the right, a plus, a triangle that points down, a
block, a warning triangle."""

_STAR_SHAPE = tuple(
    (radius * math.sin(turn * math.pi / 5), -radius * math.cos(turn * math.pi / 5))
    for turn, radius in enumerate((1.0, 0.45) * 5)
)


class Markers(Overlay):
    """Paints the marks; all marks can be found by their text, also where they are not painted."""

    def __init__(self, area: pg.ViewBox) -> None:
        super().__init__(area, z=65)  # its note covers the crosshair
        self.markers: Sequence[Marker] = ()
        self.shows_checkpoints = False
        """Whether checkpoints are painted. One plot is enough: in all of them they hide curves."""

        self._kept: Mapping[int, bool] | None = None
        self._note: tuple[float, str] | None = None
        self._colours: dict[MarkerKind, QColor] = {}

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of `theme`."""
        names = {
            MarkerKind.CHECKPOINT: theme.ok,
            MarkerKind.RESTART: theme.accent,
            MarkerKind.EDIT: theme.warn,
            MarkerKind.SHRUNK: theme.warn,
            MarkerKind.PAUSE: theme.muted,
            MarkerKind.ALARM: theme.bad,
        }
        self._colours = {kind: QColor(name) for kind, name in names.items()}
        self._card, self._text = QColor(theme.card), QColor(theme.text)
        self._star, self._frame = QColor(theme.warn), QColor(theme.line)
        self.update()

    def show_markers(self, markers: Sequence[Marker], positions: Array) -> None:
        """Show exactly these markers. `positions` are their x positions, float64 of shape (n,);
        NaN: none."""
        self.markers, self.positions = markers, positions
        self.update()

    def set_kept(self, kept: Mapping[int, bool] | None) -> None:
        """Set the steps whose checkpoints are on disk, and of each whether it is the best one.

        None: not known.
        """
        if kept != self._kept:
            self._kept = kept
            self.update()

    @property
    def note(self) -> str:
        """The text that stands at the mark that was found; empty: none."""
        return self._note[1] if self._note else ""

    def show_note(self, x: float, text: str) -> None:
        """Show `text` at the top of the plot, with a full line at the mark near `x`; hide it if it
        is empty."""
        note = (x, text) if text else None
        if note != self._note:
            self._note = note
            self.update()

    def text_at(self, pixel: float, *, ticks: bool = True) -> str:
        """Return what happened near this pixel of the view, one line per event; empty: nothing.
        Without `ticks`, checkpoints are left out."""
        near = [
            self._text_of(marker)
            for marker, position in zip(self.markers, self._pixels(), strict=True)
            if abs(position - pixel) <= NEAR and (ticks or marker.kind is not MarkerKind.CHECKPOINT)
        ]
        more = len(near) - _MAX_LISTED
        rest = [f"and {more} more"] if more > 0 else []
        return "\n".join(near[:_MAX_LISTED] + rest)

    def paint(self, painter: QPainter, *_: Any) -> None:
        """Draw lines with shapes at the top, ticks at the axis, and the note."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, True)
        visible = self._visible_markers()
        self._paint_lines(
            painter, [each for each in visible if each[1].kind is not MarkerKind.CHECKPOINT]
        )
        if self.shows_checkpoints:
            self._paint_ticks(
                painter, [each for each in visible if each[1].kind is MarkerKind.CHECKPOINT]
            )
        if self._note is not None:
            self._paint_note(painter, *self._note)

    def _text_of(self, marker: Marker) -> str:
        if marker.kind is not MarkerKind.CHECKPOINT or self._kept is None:
            return marker.text
        best = self._kept.get(int(marker.step))
        if best is None:
            return f"{marker.text} (deleted)"
        return f"{marker.text} (best)" if best else marker.text

    def _paint_lines(self, painter: QPainter, visible: Sequence[tuple[float, Marker]]) -> None:
        height = self._area.height()
        last: dict[MarkerKind, float] = {}
        ends = [-math.inf] * _ROWS
        for x, marker in visible:
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
            painter.drawPolygon(_polygon(_SHAPES[marker.kind], line, top + _SIZE, _SIZE))

    def _paint_ticks(self, painter: QPainter, visible: Sequence[tuple[float, Marker]]) -> None:
        """Draw a star for the best checkpoint, filled ticks for those on disk, and hollow ones for
        those that were deleted."""
        bottom, colour = self._area.height(), self._colours[MarkerKind.CHECKPOINT]
        ranked = sorted(visible, key=lambda each: -self._importance(each[1]))
        taken: dict[int, float] = {}
        for x, marker in ranked:
            place = int(x / _TICK_SPACE)
            beside = (taken.get(place + way, -math.inf) for way in (-1, 0, 1))
            if any(abs(x - other) < _TICK_SPACE for other in beside):
                continue
            taken[place] = x
            middle, width = sharp(painter, x)
            match self._importance(marker):
                case 2:
                    painter.setPen(QPen(self._card, 1.0))
                    painter.setBrush(self._star)
                    painter.drawPolygon(_polygon(_STAR_SHAPE, middle, bottom - _STAR, _STAR))
                case 1:
                    painter.setPen(Qt.PenStyle.NoPen)
                    painter.setBrush(colour)
                    painter.drawRect(_TICK.translated(middle, bottom))
                case _:
                    painter.setPen(QPen(colour, width))
                    painter.setBrush(self._card)
                    inset = width / 2
                    hollow = _TICK.adjusted(inset, inset, -inset, -inset)
                    painter.drawRect(hollow.translated(middle, bottom))

    def _importance(self, marker: Marker) -> int:
        """Return 2 for the best checkpoint, 1 for one on disk, 0 for a deleted one."""
        if self._kept is None:
            return 1
        best = self._kept.get(int(marker.step))
        return 0 if best is None else 1 + best

    def _paint_note(self, painter: QPainter, x: float, text: str) -> None:
        """Draw a line through the mark, and beside it its text."""
        pixel = self._pixel_of_mark(x)
        line, width = sharp(painter, pixel)
        painter.setPen(QPen(self._text, width))
        painter.drawLine(QPointF(line, 0.0), QPointF(line, self._area.height()))
        font = QFont(painter.font())
        font.setPixelSize(_NOTE_FONT)
        painter.setFont(font)
        flags = Qt.AlignmentFlag.AlignLeft | Qt.TextFlag.TextWordWrap
        room = min(_NOTE_WIDTH, self._area.width() - 4 * _NOTE_MARGIN)
        size = QFontMetricsF(font).boundingRect(QRectF(0, 0, room, 1000), int(flags), text).size()
        left = line + 2 * _NOTE_MARGIN
        if left + size.width() + _NOTE_MARGIN > self._area.width():
            left = max(line - 2 * _NOTE_MARGIN - size.width(), _NOTE_MARGIN)
        place = QRectF(QPointF(left, _NOTE_MARGIN / 2), size)
        around = place.adjusted(-_NOTE_MARGIN, -_NOTE_MARGIN / 2, _NOTE_MARGIN, _NOTE_MARGIN / 2)
        painter.setPen(QPen(self._frame, 1.0))
        painter.setBrush(self._card)
        painter.drawRoundedRect(around, 3.0, 3.0)
        painter.setPen(self._text)
        painter.drawText(place, int(flags), text)

    def _pixel_of_mark(self, x: float) -> float:
        """Return the pixel of the mark nearest to the position `x`, or that of `x` itself if none
        is near."""
        (first, last), _ = self._area.viewRange()
        wanted = (x - first) / (last - first) * self._area.width()
        near = [each for each, _ in self._visible_markers() if abs(each - wanted) <= NEAR]
        return min(near, key=lambda pixel: abs(pixel - wanted), default=wanted)

    def _visible_markers(self) -> list[tuple[float, Marker]]:
        """Return the visible markers with their pixels, from left to right."""
        width = self._area.width()
        pairs = zip(self._pixels().tolist(), self.markers, strict=True)
        return sorted((pair for pair in pairs if 0 <= pair[0] <= width), key=lambda pair: pair[0])


def _polygon(shape: Sequence[tuple[float, float]], x: float, y: float, size: float) -> QPolygonF:
    return QPolygonF([QPointF(x + size * right, y + size * down) for right, down in shape])
