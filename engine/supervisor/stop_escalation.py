"""Stops a pool of workers in three stages: ask, terminate, kill; each has a time limit."""

from __future__ import annotations

import logging
from collections.abc import Callable

from engine.diagnosis.deadlines import AwakeClock

_log = logging.getLogger(__name__)

TERMINATE_SECONDS = 3.0
LOOKS = 10
"""How often the progress of a save is looked at, in the time that it has."""

STAGES = ("ask", "terminate", "kill")


class StopEscalation:
    """Enters the next stage when one exceeds its time. `act(stage)` does the work of a stage."""

    def __init__(
        self,
        act: Callable[[str], None],
        seconds: float,
        save_progress: Callable[[], object],
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`seconds` is the time to finish the step, and then to save.

        A slow run gets the time of ten steps if that is longer. Whenever the result of
        `save_progress` has changed, the save has `seconds` once more.
        """
        self._act = act
        self._seconds = seconds
        self._save_progress = save_progress
        self._seen: object = None
        self._look_at = 0.0
        self._clock = clock or AwakeClock()
        self._stage = -1
        self._deadline = 0.0

    @property
    def is_stopping(self) -> bool:
        """Whether the first stage was entered."""
        return self._stage >= 0

    @property
    def used_force(self) -> bool:
        """Whether the workers were terminated or killed."""
        return self._stage >= STAGES.index("terminate")

    def escalate_to(self, stage: str, step_seconds: float = 0.0) -> None:
        """Enter `stage` now, unless it or a later stage was entered already."""
        target = STAGES.index(stage)
        if target <= self._stage:
            return
        self._stage = target
        _log.info("stop escalation: %s", stage)
        times = {"ask": max(self._seconds, 10 * step_seconds), "terminate": TERMINATE_SECONDS}
        self._deadline = self._clock() + times.get(stage, float("inf"))
        self._act(stage)

    def tick(self) -> None:
        """Enter the next stage if the time of the present one is over."""
        if not self.is_stopping:
            return
        now = self._clock()
        if not self.used_force and now >= self._look_at:
            self._look_at = now + self._seconds / LOOKS
            seen, self._seen = self._seen, self._save_progress()
            if seen not in (None, self._seen):
                self._deadline = max(self._deadline, now + self._seconds)
        if now > self._deadline:
            self.escalate_to(STAGES[self._stage + 1])
