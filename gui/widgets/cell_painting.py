"""What cells of tables and lists are painted with: a text, a bar, a box to tick."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPainterPath, QPen, QPolygonF

from gui.style.theme import Theme
from gui.widgets.table import LEFT

BOX = 14
"""Width and height of a box, in logical pixels."""

_CHECK = QPolygonF([QPointF(3.5, 7.2), QPointF(6.0, 9.8), QPointF(10.5, 4.4)])


def set_font(painter: QPainter, *, bold: bool = False, size: int = 0) -> None:
    """Choose the font of the next texts; `size` in logical pixels, 0: as before."""
    font = painter.font()
    font.setBold(bold)
    if size:
        font.setPixelSize(size)
    painter.setFont(font)


def draw_text(
    painter: QPainter,
    rect: QRect,
    text: str,
    side: Qt.AlignmentFlag = LEFT,
    mode: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
) -> None:
    """Draw a text, elided where it does not fit."""
    metrics = painter.fontMetrics()
    if metrics.horizontalAdvance(text) > rect.width():
        text = metrics.elidedText(text, mode, rect.width())
    painter.drawText(rect, side, text)


def draw_bar(
    painter: QPainter,
    bar: QRectF,
    ground: QColor,
    parts: Sequence[tuple[float, str]] = (),
    least: float = 0.0,
) -> None:
    """Draw a bar with round ends, and `parts` of it from the left, as shares with their colours;
    two have a gap between them. A part is at least `least` wide, in logical pixels."""
    if bar.isEmpty():
        return
    path = QPainterPath()
    radius = min(4.0, bar.height() / 2, bar.width() / 2)
    path.addRoundedRect(bar, radius, radius)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.fillPath(path, ground)
    painter.setClipPath(path, Qt.ClipOperation.IntersectClip)
    left = bar.left()
    for share, colour in parts:
        width = max(least, share * bar.width())
        gap = 1.0 if len(parts) > 1 and width > 2 else 0.0
        painter.fillRect(QRectF(left, bar.top(), width - gap, bar.height()), QColor(colour))
        left += width
    painter.restore()


def draw_box(
    painter: QPainter, centre: QPointF, theme: Theme, colour: int | None, *, dashed: bool = False
) -> None:
    """Draw an empty box, or one that is ticked in the `colour` of a curve; the tick of the baseline
    is `dashed`, as its curves in the plots."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.translate(centre - QPointF(BOX / 2, BOX / 2))
    edge = QColor(theme.muted if colour is None else theme.curve(colour))
    painter.setPen(QPen(edge, 1.2))
    painter.setBrush(Qt.BrushStyle.NoBrush if colour is None else edge)
    painter.drawRoundedRect(QRectF(0, 0, BOX, BOX), 4, 4)
    if colour is not None:
        painter.setPen(QPen(QColor(theme.card), 1.8))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if dashed:
            for begin in (2.5, 8.5):
                painter.drawLine(QPointF(begin, 7), QPointF(begin + 3, 7))
        else:
            painter.drawPolyline(_CHECK)
    painter.restore()
