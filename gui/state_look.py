"""How a run's state looks: its colour and its dot. The word always stands beside them."""

from __future__ import annotations

from PySide6.QtCore import QCoreApplication, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPixmap

from engine.client import RunInfo
from engine.run_state import RunState
from gui.theme import Theme

_SHARP = 3
"""Pixels drawn per logical pixel, enough for every screen scale."""


def state_colour(state: RunState, theme: Theme) -> str:
    """The colour of `state` in `theme`."""
    return {
        RunState.QUEUED: theme.accent,
        RunState.STARTING: theme.accent,
        RunState.RUNNING: theme.ok,
        RunState.PAUSED: theme.warn,
        RunState.STOPPING: theme.warn,
        RunState.FINISHED: theme.muted,
        RunState.STOPPED: theme.muted,
        RunState.FAILED: theme.bad,
        RunState.INTERRUPTED: theme.bad,
    }[state]


def state_words(info: RunInfo) -> str:
    """The state in a word, or behind whom the run waits, or how often it has begun."""
    if info.state is RunState.QUEUED and info.reason:
        return info.reason[0].lower() + info.reason[1:].rstrip(".")
    if info.state is RunState.STARTING and info.status.attempt > 1:
        text = QCoreApplication.translate("state", "starting again, attempt {}")
        return text.format(info.status.attempt)
    return str(info.state)


def dot(colour: str, size: int = 10) -> QPixmap:
    """A filled circle, `size` logical pixels across."""
    pixmap = QPixmap(size * _SHARP, size * _SHARP)
    pixmap.setDevicePixelRatio(_SHARP)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setBrush(QColor(colour))
    painter.setPen(Qt.PenStyle.NoPen)
    painter.drawEllipse(1, 1, size - 2, size - 2)
    painter.end()
    return pixmap


def ring(colour: str, size: int = 10) -> QPixmap:
    """An empty circle of the same size: a state that is no longer certain."""
    pixmap = dot(colour, size)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Clear)
    painter.setBrush(Qt.GlobalColor.black)
    painter.drawEllipse(3, 3, size - 6, size - 6)
    painter.end()
    return pixmap


def dot_icon(colour: str) -> QIcon:
    """The same as an icon."""
    return QIcon(dot(colour))
