"""When a checkpoint is due by the run's settings: after steps, after epochs, at the best metric.

Checkpoints after minutes are asked for by Traindeck's own process.
"""

from __future__ import annotations

import math
from typing import Any

_VALIDATION = "validation/"


class Schedule:
    """Follows the settings of the run; the same on all ranks."""

    def __init__(self) -> None:
        self._steps = 0
        self._epochs = 0
        self._metric = ""
        self._lower_is_better = True
        self._best: float | None = None

    def follow(self, settings: dict[str, Any]) -> None:
        """Take the settings."""
        self._steps = int(settings.get("steps") or 0)
        self._epochs = int(settings.get("epochs") or 0)
        self._metric = str(settings.get("best") or "")
        self._lower_is_better = bool(settings.get("lower_is_better", True))
        self._best = settings.get("best_so_far")

    def due(self, before: int, step: int) -> set[str]:
        """Return the kinds of checkpoint that became due on the way from `before` to `step`."""
        is_due = self._steps and step // self._steps > before // self._steps
        return {"steps"} if is_due else set()

    def epoch_ended(self, epoch: int, metrics: dict[str, float]) -> set[str]:
        """Return the kinds that are due after `epoch` epochs, whose validation gave `metrics`."""
        due = {"epochs"} if self._epochs and epoch % self._epochs == 0 else set()
        value = metrics.get(_VALIDATION + self._metric) if self._metric else None
        if value is not None and self._is_best(value):
            due.add("best")
        return due

    def _is_best(self, value: float) -> bool:
        if not math.isfinite(value):
            return False
        if self._best is not None:
            gain = self._best - value if self._lower_is_better else value - self._best
            if gain <= 0:
                return False
        self._best = value
        return True
