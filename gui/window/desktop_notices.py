"""Shows a desktop notification when a run ends while the window is in the background."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, Signal
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QApplication, QSystemTrayIcon, QWidget

from engine.runs.run_info import RunInfo
from engine.runs.run_notes import SWEEP_TAG, number_in
from engine.runs.run_state import RunState
from gui.widgets.plain_text import plain_tip

Notify = Callable[[str, str, bool], None]
"""Shows a desktop notification. Arguments: title, text, whether it reports a failure."""

_FAILURES = frozenset({RunState.FAILED, RunState.INTERRUPTED})


class DesktopNotices(QObject):
    """Reports runs that were active in the last list of runs and are over now.

    The many runs of a sweep are on its page: one by one, they would hide everything else.
    """

    ended = Signal(str)
    """A sentence about a run that has just ended."""

    def __init__(
        self, window: QWidget, notify: Notify | None = None, parent: QObject | None = None
    ) -> None:
        """`notify` is None on a desktop without notifications."""
        super().__init__(parent)
        self._window = window
        self._notify = notify
        self._active: set[str] = set()

    def show_runs(self, infos: list[RunInfo]) -> None:
        """Compare the newest list of runs with the last one."""
        for info in infos:
            is_trial = number_in(info.notes.tags, SWEEP_TAG) is not None
            if info.state.is_over and info.id in self._active and not is_trial:
                self._announce(info)
        self._active = {info.id for info in infos if not info.state.is_over}

    def _announce(self, info: RunInfo) -> None:
        ends = {
            RunState.FINISHED: "finished",
            RunState.STOPPED: "stopped",
            RunState.FAILED: "failed",
            RunState.INTERRUPTED: "was interrupted",
        }
        title = f"{info.title} {ends[info.state]}"
        self.ended.emit(f"{title}. {info.reason}".strip())
        if self._window.isActiveWindow():
            return
        QApplication.alert(self._window)  # highlights the taskbar entry
        if self._notify is not None:
            self._notify(title, info.reason, info.state in _FAILURES)


def desktop_notify(icon: QIcon, parent: QObject) -> Notify | None:
    """Return a function that shows notifications of a tray icon; None without a tray."""
    if not QSystemTrayIcon.isSystemTrayAvailable() or not QSystemTrayIcon.supportsMessages():
        return None
    tray = QSystemTrayIcon(icon, parent)
    tray.setToolTip(plain_tip(QApplication.applicationName()))
    tray.show()

    def notify(title: str, text: str, is_failure: bool) -> None:
        kinds = QSystemTrayIcon.MessageIcon
        # Some desktops take a text with a tag in it for HTML, as labels do.
        title, text = title.replace("<", "‹"), text.replace("<", "‹")
        tray.showMessage(title, text, kinds.Critical if is_failure else kinds.Information)

    return notify
