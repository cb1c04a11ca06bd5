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

_PROGRESS_STEPS = 200
"""The progress is rounded to this many steps, so that it is not sent for every training step."""


class Taskbar:
    """Sends the progress of the shown run to the desktop whenever it has changed."""

    def __init__(self, show_progress: ShowProgress | None) -> None:
        """`show_progress` is None on a desktop that cannot show it."""
        self._show_progress = show_progress
        self._shown: float | None = None

    def show_info(self, info: RunInfo | None) -> None:
        """Show the progress of the run while it is active; None: there is no run."""
        progress = None
        if info is not None and info.state in _ACTIVE and info.status.total_steps:
            done = min(1.0, info.status.step / info.status.total_steps)
            progress = round(done * _PROGRESS_STEPS) / _PROGRESS_STEPS
        if self._show_progress is not None and progress != self._shown:
            self._show_progress(progress)
        self._shown = progress


def desktop_progress(parent: QObject) -> ShowProgress | None:
    """Return a function that shows a progress; None without a D-Bus session bus or a screen."""
    bus = QDBusConnection.sessionBus()
    if QGuiApplication.platformName() not in ("xcb", "wayland") or not bus.isConnected():
        return None

    def show_progress(progress: float | None) -> None:
        message = QDBusMessage.createSignal(f"/{DESKTOP_FILE}", _INTERFACE, "Update")
        shown = {"progress": progress or 0.0, "progress-visible": progress is not None}
        message.setArguments([f"application://{DESKTOP_FILE}.desktop", shown])
        bus.send(message)

    return show_progress
