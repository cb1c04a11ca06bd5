"""The mark of a run's state: each state has a shape of its own, and a colour of its own."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPen, QPixmap, QPolygonF

from engine.runs.run_state import RunState
from gui.style.state_style import PIXEL_RATIO

SIZE = 14
"""Logical pixels: width and height of a mark."""

_INK = 1.7
"""Width of its lines."""


def draw_state(painter: QPainter, corner: QPointF, state: RunState | None, colour: str) -> None:
    """Draw the mark of `state` at its upper left `corner`; None: the state is uncertain."""
    ink = QColor(colour)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.translate(corner)
    pen = QPen(ink, _INK, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap)
    pen.setJoinStyle(Qt.PenJoinStyle.RoundJoin)
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    draw = _circle if state is None else _SHAPES[state]
    draw(painter, ink)
    painter.restore()


def state_pixmap(state: RunState | None, colour: str) -> QPixmap:
    """Return the mark of `state` as a picture; None: the state is uncertain."""
    pixmap = QPixmap(SIZE * PIXEL_RATIO, SIZE * PIXEL_RATIO)
    pixmap.setDevicePixelRatio(PIXEL_RATIO)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    draw_state(painter, QPointF(), state, colour)
    painter.end()
    return pixmap


def state_icon(state: RunState | None, colour: str) -> QIcon:
    """Return the mark of `state` as an icon, for tables; None: the state is uncertain."""
    return QIcon(state_pixmap(state, colour))


def _circle(painter: QPainter, ink: QColor) -> None:
    painter.drawEllipse(QPointF(7, 7), 5, 5)


def _running(painter: QPainter, ink: QColor) -> None:
    _circle(painter, ink)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(ink)
    painter.drawEllipse(QPointF(7, 7), 2.4, 2.4)


def _starting(painter: QPainter, ink: QColor) -> None:
    painter.drawArc(QRectF(2, 2, 10, 10), 90 * 16, -270 * 16)


def _queued(painter: QPainter, ink: QColor) -> None:
    _circle(painter, ink)
    painter.drawPolyline(QPolygonF([QPointF(7, 4.4), QPointF(7, 7.2), QPointF(9, 8.4)]))


def _paused(painter: QPainter, ink: QColor) -> None:
    painter.setPen(QPen(ink, 2.6, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
    for x in (4.6, 9.4):
        painter.drawLine(QPointF(x, 3.4), QPointF(x, 10.6))


def _stopping(painter: QPainter, ink: QColor) -> None:
    painter.drawRoundedRect(QRectF(3, 3, 8, 8), 1.5, 1.5)


def _stopped(painter: QPainter, ink: QColor) -> None:
    painter.setBrush(ink)
    _stopping(painter, ink)


def _finished(painter: QPainter, ink: QColor) -> None:
    painter.setPen(QPen(ink, 2.2, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
    painter.drawPolyline(QPolygonF([QPointF(2.6, 7.4), QPointF(5.7, 10.5), QPointF(11.6, 3.8)]))


def _failed(painter: QPainter, ink: QColor) -> None:
    painter.setPen(QPen(ink, 2.2, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
    painter.drawLine(QPointF(3.4, 3.4), QPointF(10.6, 10.6))
    painter.drawLine(QPointF(10.6, 3.4), QPointF(3.4, 10.6))


def _interrupted(painter: QPainter, ink: QColor) -> None:
    painter.drawPolygon(QPolygonF([QPointF(7, 2), QPointF(12.4, 11.6), QPointF(1.6, 11.6)]))
    painter.drawLine(QPointF(7, 5.8), QPointF(7, 8))
    painter.drawPoint(QPointF(7, 9.9))


def _elsewhere(painter: QPainter, ink: QColor) -> None:
    pen = QPen(ink, _INK)
    pen.setDashPattern([1.6, 1.6])
    painter.setPen(pen)
    _circle(painter, ink)


_SHAPES: dict[RunState, Callable[[QPainter, QColor], None]] = {
    RunState.QUEUED: _queued,
    RunState.STARTING: _starting,
    RunState.RUNNING: _running,
    RunState.PAUSED: _paused,
    RunState.STOPPING: _stopping,
    RunState.FINISHED: _finished,
    RunState.STOPPED: _stopped,
    RunState.FAILED: _failed,
    RunState.INTERRUPTED: _interrupted,
    RunState.ELSEWHERE: _elsewhere,
}
