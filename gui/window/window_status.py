"""What the window says to somebody who does not look at it, or not closely: its title, its entry in
the taskbar, and greying what may no longer be true."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from engine.runs.run_info import RunInfo
from gui.bridge.liveness import HEARD, Liveness, Silence
from gui.run_view.progress_text import window_title
from gui.run_view.run_controls import RunControls
from gui.window.taskbar import Taskbar, desktop_tell


class WindowStatus(QObject):
    """Follows the run on display."""

    def __init__(self, window: QWidget, controls: RunControls, greyed: Iterable[QWidget]) -> None:
        """`greyed` are the widgets whose figures are old when the supervisor is silent."""
        super().__init__(window)
        self._window, self._controls = window, controls
        self._greyed = list(greyed)
        self._info: RunInfo | None = None
        self._silence = HEARD
        self._taskbar = Taskbar(desktop_tell(self))
        self.liveness = Liveness(self)
        self.liveness.silence.connect(self._show_silence)

    def show_info(self, info: RunInfo | None) -> None:
        """Take the newest status; None: there is no run, or another one is opened."""
        self._info = info
        self.liveness.show_info(info)
        self._taskbar.show_info(info)
        self._show_title()

    def _show_silence(self, silence: Silence) -> None:
        self._silence = silence
        self._controls.show_silence(silence)
        for widget in self._greyed:
            widget.setEnabled(not silence.seconds)
        self._show_title()

    def _show_title(self) -> None:
        self._window.setWindowTitle(window_title(self._info, self._silence))
