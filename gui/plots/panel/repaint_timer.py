"""The clock of the plots: a call for every frame while there is something to paint, else fewer."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer

FRAME_MS = 16
IDLE_MS = 50
IDLE_AFTER = 30
"""Frames without anything to paint after which nobody notices a slower clock."""


class RepaintTimer(QTimer):
    """Calls `paint`, which returns whether it had anything to do."""

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
