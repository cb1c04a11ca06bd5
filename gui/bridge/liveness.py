"""Whether the figures of an active run are fresh: its supervisor writes a heartbeat every second,
its workers report every step, and another machine answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from PySide6.QtCore import QObject, QTimer, Signal

from engine.messages.heartbeat import last_beat
from engine.processes.process import is_halted
from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState, RunStatus
from gui.bridge.machines.machines import is_elsewhere, place_of

STALE_SECONDS = 3.0
STALE_STEPS = 2.0
"""The workers count as silent after STALE_SECONDS plus the duration of this many steps."""

CHECK_MS = 500
_REPORTING_STATES = frozenset({RunState.RUNNING, RunState.PAUSED, RunState.STOPPING})
"""In other states no silence is reported: a supervisor that starts processes may be late."""


class Silence(NamedTuple):
    """How long a run has been silent: its supervisor, only its workers, or its whole machine."""

    seconds: float = 0.0
    """0: the run is not silent."""

    workers_only: bool = False
    """The supervisor writes heartbeats, but the workers have finished no step."""

    machine: str = ""
    """The other machine from which no news come; empty: it is not silent, or the run is here."""

    halted: int = 0
    """Process id of the supervisor, if a signal has halted it; otherwise 0."""


NO_SILENCE = Silence()


class Liveness(QObject):
    """Watches the supervisor and the progress of the run on display."""

    silence = Signal(object)
    """The Silence at each check while the run is silent; NO_SILENCE once, when the silence ends."""

    def __init__(
        self,
        parent: QObject | None = None,
        unheard_seconds: Callable[[str], float] = lambda machine: 0.0,
    ) -> None:
        """`unheard_seconds`: how long ago another machine has said its last word, by its name."""
        super().__init__(parent)
        self.unheard_seconds = unheard_seconds
        self._info: RunInfo | None = None
        self._progress: tuple[object, ...] = ()
        self._progressed_at = 0.0
        self._silent = False
        self._timer = QTimer(self, interval=CHECK_MS)
        self._timer.timeout.connect(self.check)
        self._timer.start()

    def show_info(self, info: RunInfo | None) -> None:
        """Set the newest status of the run on display; None: no run, or another run is opened."""
        self._info = info
        progress = () if info is None else (info.id, info.state, *_progress(info.status))
        if progress != self._progress:
            is_first = info is not None and self._progress[:1] != (info.id,)
            self._progress = progress
            # When a run is opened, the time of its last step is unknown: use its last event.
            is_here = info is not None and not is_elsewhere(info)  # another machine's clock differs
            known = info is not None and is_first and is_here
            self._progressed_at = info.status.updated if info and known else time.time()
        self.check()

    def check(self) -> None:
        """Check now; the timer calls this."""
        now = self._current_silence()
        if now.seconds:
            self._silent = True
            self.silence.emit(now)
        elif self._silent:
            self._silent = False
            self.silence.emit(NO_SILENCE)

    def _current_silence(self) -> Silence:
        info, now = self._info, time.time()
        if info is None or info.state not in _REPORTING_STATES or not info.is_recorded:
            return NO_SILENCE  # or its supervisor tells the state, without the disk
        # An event counts like a heartbeat: supervisors of older versions write no heartbeat.
        beat = 0.0 if is_elsewhere(info) else last_beat(info.folder)
        seconds = now - max(beat, info.status.updated)
        if seconds >= STALE_SECONDS and not is_elsewhere(info):
            pid = info.status.supervisor_pid
            return Silence(seconds, halted=pid if is_halted(pid) else 0)
        # Before the first step ends, the duration of a step is unknown.
        if info.state is RunState.RUNNING and info.status.step_seconds:
            seconds = now - self._progressed_at
            machine = place_of(info.id)[0]
            if (unheard := self.unheard_seconds(machine) if machine else 0.0) >= STALE_SECONDS:
                return Silence(unheard, machine=machine)
            if seconds >= STALE_SECONDS + STALE_STEPS * info.status.step_seconds:
                return Silence(seconds, workers_only=True)
        return NO_SILENCE


def _progress(status: RunStatus) -> tuple[object, ...]:
    """Return the fields that change with each step and with each part of a validation."""
    return status.attempt, status.epoch, status.step, status.seconds_left
