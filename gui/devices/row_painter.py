"""Paints the parts of a device row: text, bars and the sparkline."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from PySide6.QtCore import QPointF, QRect, QRectF, QSizeF, Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QFontMetrics,
    QPainter,
    QPainterPath,
    QPen,
    QPolygonF,
)

from gui.devices.memory_bar import Segment, SegmentKind
from gui.style.theme import Theme

Sample = tuple[float, float]
"""Seconds since the epoch, and a part from 0 to 1 (NaN: unknown)."""

MAX_SAMPLE_GAP = 8.0
"""Samples that are further apart (seconds) are not connected. While the window is hidden, the
devices are sampled less often."""

_ALPHA: dict[SegmentKind, int] = {"tensors": 255, "cache": 150, "context": 85}
_MIN_BAR_WIDTH = 4.0
"""Minimum width of a bar that is not empty, in logical pixels."""

_AMBER, _RED = 0.80, 0.95
"""Thresholds for the part of the memory in use."""


class RowPainter:
    """A QPainter with the fonts and colours of one row."""

    def __init__(
        self, painter: QPainter, theme: Theme, greyed: bool, colour_index: int | None
    ) -> None:
        """`colour_index` is for `Theme.curve`, None: grey. `greyed`: the figures are stale, or the
        device does not answer."""
        self._painter = painter
        self._theme = theme
        self._greyed = greyed
        self._bold_font = QFont(painter.font())
        self._bold_font.setWeight(QFont.Weight.DemiBold)
        self._small_font = QFont(painter.font())
        self._small_font.setPixelSize(11)
        self.muted = QColor(theme.muted)
        self.plain_colour = QColor(theme.muted if greyed else theme.text)
        self.warn = QColor(theme.muted if greyed else theme.warn)
        colour = theme.muted if colour_index is None else theme.curve(colour_index)
        self.colour = QColor(theme.other if greyed else colour)
        self.label = QColor(theme.muted if greyed else colour)

    def text(
        self,
        area: QRect,
        text: str,
        text_colour: QColor,
        *,
        bold: bool = False,
        right: bool = False,
    ) -> int:
        """Paint one line of text, elided to `area`; return its width."""
        font = self._bold_font if bold else self._small_font
        metrics = QFontMetrics(font)
        elided = metrics.elidedText(text, Qt.TextElideMode.ElideRight, area.width())
        side = Qt.AlignmentFlag.AlignRight if right else Qt.AlignmentFlag.AlignLeft
        self._painter.setFont(font)
        self._painter.setPen(text_colour)
        self._painter.drawText(area, side | Qt.AlignmentFlag.AlignVCenter, elided)
        return metrics.horizontalAdvance(elided)

    def memory_colour(self, part: float | None) -> QColor:
        """Return the colour of the memory figure, by the part of the memory in use."""
        if self._greyed or part is None or part <= _AMBER:
            return self.plain_colour
        return QColor(self._theme.bad if part > _RED else self._theme.warn)

    def bar(self, area: QRectF, part: float | None) -> None:
        """Paint a bar that is filled by `part`, 0 to 1; None: an empty bar."""
        self.segmented_bar(
            area, [Segment("ours", min(max(part, 0.0), 1.0))] if part else [], self.plain_colour
        )

    def upright_bar(self, area: QRectF, part: float | None, *, faint: bool) -> None:
        """Paint a bar that is filled from below by `part`, 0 to 1; None: an empty bar."""
        self._painter.fillRect(area, QColor(self._theme.line))
        if part:
            height = max(2.0, min(max(part, 0.0), 1.0) * area.height())
            colour = QColor(self.colour)
            colour.setAlpha(150 if faint else 255)
            top = area.bottom() - height
            self._painter.fillRect(QRectF(area.left(), top, area.width(), height), colour)

    def segmented_bar(self, area: QRectF, segments: Iterable[Segment], end: QColor) -> None:
        """Paint a bar with `segments` side by side. `end` is the colour of a cap at the end of the
        used part; the plain colour: no cap."""
        painter = self._painter
        painter.save()
        painter.setClipPath(_rounded_path(area))
        painter.fillRect(area, QColor(self._theme.line))
        # Even a tiny part is visible, and has rounded ends like a full bar.
        pieces = [
            (each.kind, max(2.0 if number else _MIN_BAR_WIDTH, each.part * area.width()))
            for number, each in enumerate(segments)
        ]
        whole = QRectF(area.topLeft(), QSizeF(sum(w for _, w in pieces), area.height()))
        painter.setClipPath(_rounded_path(whole & area))
        left, in_use = area.left(), area.left()
        for kind, width in pieces:
            self._fill(QRectF(left, area.top(), width, area.height()), kind)
            left += width
            if kind != "reserved":
                in_use = left
        if end != self.plain_colour:
            cap = min(in_use, area.right()) - 3
            painter.fillRect(QRectF(cap, area.top(), 3, area.height()), end)
        painter.restore()

    def _fill(self, piece: QRectF, kind: SegmentKind) -> None:
        painter, other = self._painter, QColor(self._theme.other)
        match kind:
            case "others":
                # Stripes, because colour alone must not distinguish the processes of others from
                # ours.
                painter.fillRect(piece, other)
                stripes = QPen(QColor(self._theme.text), 1)
                painter.setPen(stripes)
                x = piece.left() + 2
                while x < piece.right():
                    painter.drawLine(QPointF(x, piece.bottom()), QPointF(x + 3, piece.top()))
                    x += 5
            case "unnamed":
                painter.fillRect(piece, other)
            case "reserved":
                painter.fillRect(piece, QBrush(other, Qt.BrushStyle.Dense5Pattern))
            case _:
                colour = QColor(self.colour)
                colour.setAlpha(_ALPHA.get(kind, 255))
                painter.fillRect(piece, colour)

    def sparkline(self, area: QRectF, samples: Sequence[Sample], seconds: float) -> None:
        """Paint the last `seconds` up to the newest sample, with a gap where a value is unknown."""
        newest = samples[-1][0] if samples else 0.0
        scale = area.width() / seconds
        points: list[QPointF] = []
        before = newest - seconds
        for time, part in samples:
            if part != part or time - before > MAX_SAMPLE_GAP:
                self._curve(area, points)
                points = []
            if part == part and time >= newest - seconds:
                height = min(max(part, 0.0), 1.0) * (area.height() - 1)
                left = area.right() - (newest - time) * scale
                points.append(QPointF(left, area.bottom() - height))
            before = time
        self._curve(area, points)
        self._painter.setPen(QPen(QColor(self._theme.line), 1))
        self._painter.drawLine(area.bottomLeft(), area.bottomRight())

    def _curve(self, area: QRectF, points: list[QPointF]) -> None:
        if len(points) < 2:
            return
        shade = QColor(self.colour)
        shade.setAlpha(self._theme.raw)
        ends = [QPointF(end.x(), area.bottom()) for end in (points[-1], points[0])]
        self._painter.setPen(Qt.PenStyle.NoPen)
        self._painter.setBrush(shade)
        self._painter.drawPolygon(QPolygonF(points + ends))
        self._painter.setPen(QPen(self.colour, 1.2))
        self._painter.drawPolyline(QPolygonF(points))

    def focus_ring(self, area: QRectF) -> None:
        """Paint the focus ring."""
        self._painter.setPen(QPen(QColor(self._theme.accent), 1))
        self._painter.setBrush(Qt.BrushStyle.NoBrush)
        self._painter.drawRoundedRect(area.adjusted(0.5, 0.5, -0.5, -0.5), 4, 4)


def _rounded_path(area: QRectF) -> QPainterPath:
    radius = min(area.width(), area.height()) / 2
    path = QPainterPath()
    path.addRoundedRect(area, radius, radius)
    return path
