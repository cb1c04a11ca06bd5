"""Shows the state of the watched run in the window title and the taskbar; greys old figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from PySide6.QtCore import QObject
from PySide6.QtWidgets import QWidget

from engine.runs.run_info import RunInfo
from gui.bridge.liveness import NO_SILENCE, Liveness, Silence
from gui.run_view.headline import RunHeadline
from gui.run_view.progress_text import window_title
from gui.window.taskbar import Taskbar, desktop_progress


class WindowStatus(QObject):
    """Passes each status of the watched run to the title, the taskbar and the liveness check."""

    def __init__(
        self,
        window: QWidget,
        headline: RunHeadline,
        greyed: Iterable[QWidget],
        unheard_seconds: Callable[[str], float] = lambda machine: 0.0,
    ) -> None:
        """`greyed` are the widgets to disable while figures are old; see Liveness for the rest."""
        super().__init__(window)
        self._window, self._headline = window, headline
        self._greyed = list(greyed)
        self._info: RunInfo | None = None
        self._silence = NO_SILENCE
        self._taskbar = Taskbar(desktop_progress(self))
        self.liveness = Liveness(self, unheard_seconds)
        self.liveness.silence.connect(self._show_silence)

    def show_info(self, info: RunInfo | None) -> None:
        """Set the newest status; None: no run, or another run is opened."""
        self._info = info
        self.liveness.show_info(info)
        self._taskbar.show_info(info)
        self._show_title()

    def _show_silence(self, silence: Silence) -> None:
        self._silence = silence
        self._headline.show_silence(silence)
        for widget in self._greyed:
            widget.setEnabled(not silence.seconds)
        self._show_title()

    def _show_title(self) -> None:
        self._window.setWindowTitle(window_title(self._info, self._silence))
