"""The colour and name of a run's state, and dots. The name always accompanies the colour."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPixmap

from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState
from gui.style.formatting import capitalized
from gui.style.theme import Theme

IMPORTED_NAME = "imported"
"""What stands in the place of the state of a run that was imported."""

PIXEL_RATIO = 3
"""Device pixels per logical pixel of the drawn icons, enough for every screen scale."""


def is_hung(info: RunInfo) -> bool:
    """Whether the run makes no progress, although its workers live."""
    return info.state is RunState.RUNNING and "hang" in info.status.troubles


def marked_state(info: RunInfo) -> RunState:
    """Return the state whose mark a run has: one that hangs gets the warning sign."""
    return RunState.INTERRUPTED if is_hung(info) else info.state


def state_colour(info: RunInfo, theme: Theme) -> str:
    """Return the colour of the state of a run in `theme`."""
    if is_hung(info):
        return theme.warn
    return {
        RunState.QUEUED: theme.accent,
        RunState.STARTING: theme.accent,
        RunState.RUNNING: theme.ok,
        RunState.PAUSED: theme.warn,
        RunState.STOPPING: theme.warn,
        RunState.FINISHED: theme.done,
        RunState.STOPPED: theme.muted,
        RunState.FAILED: theme.bad,
        RunState.INTERRUPTED: theme.lost,
        RunState.ELSEWHERE: theme.muted,
    }[info.state]


def state_text(info: RunInfo) -> str:
    """Return the state as a text; a queued run says what it waits for, a restarting one its
    attempt."""
    if info.spec.is_imported:
        return IMPORTED_NAME
    if info.state is RunState.QUEUED and info.reason:
        return info.reason[0].lower() + info.reason[1:].rstrip(".")
    if info.state is RunState.STARTING and info.status.attempt > 1:
        return f"restarting, attempt {info.status.attempt}"
    if is_hung(info):
        return "no progress"
    if info.status.not_finite_since >= 0:
        return (
            f"{state_name(info.state)}, loss is NaN or infinite since step "
            f"{info.status.not_finite_since:,}"
        )
    return state_name(info.state)


def state_name(state: RunState) -> str:
    """Return the name of the state, lower case."""
    return {
        RunState.QUEUED: "queued",
        RunState.STARTING: "starting",
        RunState.RUNNING: "running",
        RunState.PAUSED: "paused",
        RunState.STOPPING: "stopping",
        RunState.FINISHED: "finished",
        RunState.STOPPED: "stopped",
        RunState.FAILED: "failed",
        RunState.INTERRUPTED: "interrupted",
        RunState.ELSEWHERE: "on another machine",
    }[state]


def state_sentence(state: RunState) -> str:
    """Return the name of the state as a sentence: `Finished.`"""
    return f"{capitalized(state_name(state))}."


def dot(colour: str, size: int = 10) -> QPixmap:
    """Return a filled circle with a diameter of `size` logical pixels."""
    pixmap = QPixmap(size * PIXEL_RATIO, size * PIXEL_RATIO)
    pixmap.setDevicePixelRatio(PIXEL_RATIO)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setBrush(QColor(colour))
    painter.setPen(Qt.PenStyle.NoPen)
    painter.drawEllipse(1, 1, size - 2, size - 2)
    painter.end()
    return pixmap


def ring(colour: str, size: int = 10) -> QPixmap:
    """Return an empty circle: the state is uncertain."""
    pixmap = dot(colour, size)
    painter = QPainter(pixmap)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_Clear)
    painter.setBrush(Qt.GlobalColor.black)
    painter.drawEllipse(3, 3, size - 6, size - 6)
    painter.end()
    return pixmap


def dot_icon(colour: str) -> QIcon:
    """Return a filled circle as an icon."""
    return QIcon(dot(colour))


def switch_icon(colour: str) -> QIcon:
    """Return the icon of a checkable button: a filled circle if checked, otherwise an empty one."""
    icon = QIcon()
    icon.addPixmap(dot(colour), QIcon.Mode.Normal, QIcon.State.On)
    icon.addPixmap(ring(colour), QIcon.Mode.Normal, QIcon.State.Off)
    return icon
