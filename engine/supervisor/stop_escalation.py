"""How a pool is ended: ask, terminate, kill; each rung with its time."""

from __future__ import annotations

import logging
from collections.abc import Callable

from engine.diagnosis.deadlines import AwakeClock

_log = logging.getLogger(__name__)

ASK_SECONDS = 30.0
"""Time to finish the step and to save, at the least; ten steps if they take longer."""

TERMINATE_SECONDS = 3.0
STAGES = ("ask", "terminate", "kill")


class StopEscalation:
    """Climbs from rung to rung as time passes. `act(stage)` does what the rung says."""

    def __init__(
        self, act: Callable[[str], None], clock: Callable[[], float] | None = None
    ) -> None:
        self._act = act
        self._clock = clock or AwakeClock()
        self._stage = -1
        self._deadline = 0.0

    @property
    def is_stopping(self) -> bool:
        """Whether the pool is being ended."""
        return self._stage >= 0

    @property
    def used_force(self) -> bool:
        """Whether workers were ended without their consent."""
        return self._stage >= STAGES.index("terminate")

    def escalate_to(self, stage: str, step_seconds: float = 0.0) -> None:
        """Go to `stage` now, unless it was reached already."""
        target = STAGES.index(stage)
        if target <= self._stage:
            return
        self._stage = target
        _log.info("stop escalation: %s", stage)
        waits = {"ask": max(ASK_SECONDS, 10 * step_seconds), "terminate": TERMINATE_SECONDS}
        self._deadline = self._clock() + waits.get(stage, float("inf"))
        self._act(stage)

    def tick(self) -> None:
        """Climb when the time of this rung is over."""
        if self.is_stopping and self._clock() > self._deadline:
            self.escalate_to(STAGES[self._stage + 1])
