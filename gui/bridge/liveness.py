"""Whether what is shown of a live run is fresh: its supervisor gives a sign every second, and its
workers report every step."""

from __future__ import annotations

import time
from typing import NamedTuple

from PySide6.QtCore import QObject, QTimer, Signal

from engine.messages.heartbeat import last_beat
from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState, RunStatus

STALE_SECONDS = 3.0
STALE_STEPS = 2.0
"""So many steps may take as long as they do before the workers are missed."""

CHECK_MS = 500
_SPEAKS = frozenset({RunState.RUNNING, RunState.PAUSED, RunState.STOPPING})
"""States in which the loop of the supervisor turns; while it starts, processes are made."""


class Silence(NamedTuple):
    """How long nothing has been heard, and of whom."""

    seconds: float = 0.0
    """0: all is heard that should be."""

    workers_only: bool = False
    """The supervisor is well, but the workers have finished no step."""


HEARD = Silence()


class Liveness(QObject):
    """Watches the supervisor and the progress of the run on display."""

    silence = Signal(object)
    """Silence once it has lasted STALE_SECONDS, again at every check; HEARD when it is over, or
    when there is nothing to hear."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._info: RunInfo | None = None
        self._progress: tuple[object, ...] = ()
        self._progressed = 0.0
        self._silent = False
        self._timer = QTimer(self)
        self._timer.setInterval(CHECK_MS)
        self._timer.timeout.connect(self.check)
        self._timer.start()

    def show_info(self, info: RunInfo | None) -> None:
        """Take the newest status of the run on display; None: there is none, or another one."""
        self._info = info
        progress = () if info is None else (info.id, info.state, *_progress(info.status))
        if progress != self._progress:
            is_first = info is not None and self._progress[:1] != (info.id,)
            self._progress = progress
            # Of a run that is opened it is not known when; its last event was not earlier.
            self._progressed = info.status.updated if info and is_first else time.time()
        self.check()

    def check(self) -> None:
        """Look now; the timer calls this."""
        now = self._now()
        if now.seconds:
            self._silent = True
            self.silence.emit(now)
        elif self._silent:
            self._silent = False
            self.silence.emit(HEARD)

    def _now(self) -> Silence:
        info, now = self._info, time.time()
        if info is None or info.state not in _SPEAKS:
            return HEARD
        # What it recorded is a sign, too: a supervisor of an older version gives no other.
        seconds = now - max(last_beat(info.folder), info.status.updated)
        if seconds >= STALE_SECONDS:
            return Silence(seconds)
        # Before the first step is done nobody knows how long one takes, and there is nothing old.
        if info.state is RunState.RUNNING and info.status.step_seconds:
            seconds = now - self._progressed
            if seconds >= STALE_SECONDS + STALE_STEPS * info.status.step_seconds:
                return Silence(seconds, workers_only=True)
        return HEARD


def _progress(status: RunStatus) -> tuple[object, ...]:
    """What changes with each step, and with each part of a validation."""
    return status.attempt, status.epoch, status.step, status.seconds_left
