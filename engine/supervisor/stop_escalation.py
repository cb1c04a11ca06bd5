"""How a pool is ended: ask, terminate, kill; each rung with its time."""

from __future__ import annotations

from collections.abc import Callable

from engine.diagnosis.deadlines import AwakeClock

ASK_SECONDS = 30.0
"""Time to finish the step and to save, at the least; ten steps if they take longer."""

TERMINATE_SECONDS = 3.0
RUNGS = ("ask", "terminate", "kill")


class StopLadder:
    """Climbs from rung to rung as time passes. `act(rung)` does what the rung says."""

    def __init__(
        self, act: Callable[[str], None], clock: Callable[[], float] | None = None
    ) -> None:
        self._act = act
        self._clock = clock or AwakeClock()
        self._rung = -1
        self._deadline = 0.0

    @property
    def is_climbing(self) -> bool:
        """Whether the pool is being ended."""
        return self._rung >= 0

    @property
    def used_force(self) -> bool:
        """Whether workers were ended without their consent."""
        return self._rung >= RUNGS.index("terminate")

    def climb_to(self, rung: str, step_seconds: float = 0.0) -> None:
        """Go to `rung` now, unless it was reached already."""
        target = RUNGS.index(rung)
        if target <= self._rung:
            return
        self._rung = target
        waits = {"ask": max(ASK_SECONDS, 10 * step_seconds), "terminate": TERMINATE_SECONDS}
        self._deadline = self._clock() + waits.get(rung, float("inf"))
        self._act(rung)

    def tick(self) -> None:
        """Climb when the time of this rung is over."""
        if self.is_climbing and self._clock() > self._deadline:
            self.climb_to(RUNGS[self._rung + 1])
