"""A timer that calls for a repaint at every frame, and less often while nothing changes."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

FRAME_MS = 16
IDLE_MS = 50
IDLE_AFTER = 30
"""After this many frames without a change, the timer slows down."""


class RepaintTimer(QTimer):
    """Calls `paint` regularly; `paint` returns whether it had anything to repaint."""

    def __init__(self, paint: Callable[[], bool], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._paint = paint
        self._empty = 0
        self.setInterval(FRAME_MS)
        self.timeout.connect(self._tick)

    def _tick(self) -> None:
        self._empty = 0 if self._paint() else self._empty + 1
        wanted = FRAME_MS if self._empty < IDLE_AFTER else IDLE_MS
        if wanted != self.interval():
            self.setInterval(wanted)
