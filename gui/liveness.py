"""Whether what is shown of a live run is fresh: its supervisor gives a sign every second."""

from __future__ import annotations

import time

from PySide6.QtCore import QObject, QTimer, Signal

from engine.client import RunInfo
from engine.heartbeat import last_beat
from engine.run_state import RunState

STALE_SECONDS = 3.0
CHECK_MS = 500
_SPEAKS = frozenset({RunState.RUNNING, RunState.PAUSED, RunState.STOPPING})
"""States in which the loop of the supervisor turns; while it starts, processes are made."""


class Liveness(QObject):
    """Watches the supervisor of the run on display."""

    silence = Signal(float)
    """Seconds since its last sign once they are STALE_SECONDS, again at every check; 0 when it is
    heard again, or when there is nothing to hear."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._info: RunInfo | None = None
        self._silent = False
        self._timer = QTimer(self)
        self._timer.setInterval(CHECK_MS)
        self._timer.timeout.connect(self.check)
        self._timer.start()

    def show_info(self, info: RunInfo | None) -> None:
        """Take the newest status of the run on display; None: there is none, or another one."""
        self._info = info
        self.check()

    def check(self) -> None:
        """Look now; the timer calls this."""
        seconds = self._seconds()
        if seconds >= STALE_SECONDS:
            self._silent = True
            self.silence.emit(seconds)
        elif self._silent:
            self._silent = False
            self.silence.emit(0.0)

    def _seconds(self) -> float:
        info = self._info
        if info is None or info.state not in _SPEAKS:
            return 0.0
        # What it recorded is a sign, too: a supervisor of an older version gives no other.
        return time.time() - max(last_beat(info.folder), info.status.updated)
