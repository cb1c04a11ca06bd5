"""Stops a pool of workers in three stages: ask, terminate, kill; each has a time limit."""

from __future__ import annotations

import logging
from collections.abc import Callable

from engine.diagnosis.deadlines import AwakeClock

_log = logging.getLogger(__name__)

ASK_SECONDS = 30.0
"""Time to finish the step and to save; a slow run gets the time of ten steps if that is longer."""

TERMINATE_SECONDS = 3.0
STAGES = ("ask", "terminate", "kill")


class StopEscalation:
    """Enters the next stage when one exceeds its time. `act(stage)` does the work of a stage."""

    def __init__(
        self, act: Callable[[str], None], clock: Callable[[], float] | None = None
    ) -> None:
        self._act = act
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
        times = {"ask": max(ASK_SECONDS, 10 * step_seconds), "terminate": TERMINATE_SECONDS}
        self._deadline = self._clock() + times.get(stage, float("inf"))
        self._act(stage)

    def tick(self) -> None:
        """Enter the next stage if the time of the present one is over."""
        if self.is_stopping and self._clock() > self._deadline:
            self.escalate_to(STAGES[self._stage + 1])
