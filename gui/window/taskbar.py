"""Shows the progress of the run in the taskbar or dock, on desktops that support it."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject
from PySide6.QtDBus import QDBusConnection, QDBusMessage
from PySide6.QtGui import QGuiApplication

from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState

DESKTOP_FILE = "traindeck"
"""Name of the desktop entry, by which a dock identifies the window."""

ShowProgress = Callable[[float | None], None]
"""Shows a progress from 0 to 1; None hides it."""

_ACTIVE = frozenset({RunState.RUNNING, RunState.PAUSED, RunState.STOPPING})
_INTERFACE = "com.canonical.Unity.LauncherEntry"
"""The D-Bus interface of the docks of Ubuntu and KDE; others ignore it."""

_SLIDER_STEPS = 200
"""Steps of the progress: a dock has few pixels."""


class Taskbar:
    """Shows the progress when it has changed."""

    def __init__(self, show_progress: ShowProgress | None) -> None:
        """`show_progress` is None on a desktop that cannot show it."""
        self._show_progress = show_progress
        self._shown: float | None = None

    def show_info(self, info: RunInfo | None) -> None:
        """Show the progress of the run on display while it is active."""
        part = None
        if info is not None and info.state in _ACTIVE and info.status.total_steps:
            done = min(1.0, info.status.step / info.status.total_steps)
            part = round(done * _SLIDER_STEPS) / _SLIDER_STEPS
        if self._show_progress is not None and part != self._shown:
            self._show_progress(part)
        self._shown = part


def desktop_progress(parent: QObject) -> ShowProgress | None:
    """Return a function for this desktop; None without a session bus or a screen."""
    bus = QDBusConnection.sessionBus()
    if QGuiApplication.platformName() not in ("xcb", "wayland") or not bus.isConnected():
        return None

    def show_progress(part: float | None) -> None:
        message = QDBusMessage.createSignal(f"/{DESKTOP_FILE}", _INTERFACE, "Update")
        shown = {"progress": part or 0.0, "progress-visible": part is not None}
        message.setArguments([f"application://{DESKTOP_FILE}.desktop", shown])
        bus.send(message)

    return show_progress
