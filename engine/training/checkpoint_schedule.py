"""When a checkpoint is due without anybody asking: by steps, by the clock, by epochs, when best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from engine.runs.checkpoint_files import Manifest, Position
from engine.spec.metric_direction import lower_is_better, split_direction
from engine.spec.run_spec import RunSpec
from engine.spec.spec_fields import LARGEST

VALIDATION = "validation/"


class CheckpointSchedule:
    """Knows what is due at a boundary; rank 0 alone has one. Times are of a monotonic clock."""

    def __init__(
        self,
        spec: RunSpec,
        metric_directions: Mapping[str, str],
        start: Position,
        now: float,
        saved: Sequence[Manifest],
    ) -> None:
        """`saved` are the checkpoints there are: they say what was best before a resume."""
        self._spec = spec
        self._start = start.step
        self._last_save = now
        self._metric, _ = split_direction(spec.checkpoint_best)
        self._best_by = VALIDATION + self._metric
        self._lower_is_better = lower_is_better(self._metric, metric_directions)
        self._best: float | None = None
        self._waiting: set[str] = set()
        self._said_which_metrics = False
        self.metrics: dict[str, float] = {}
        """What the last validation found."""

        for manifest in saved:
            if manifest.position.step == start.step:
                self.metrics = manifest.metrics
            if "best" in manifest.kinds and self._best_by in manifest.metrics:
                self._is_best(manifest.metrics[self._best_by])

    def steps_left(self, step: int) -> int:
        """Steps that may be done after `step` before something is due by steps."""
        every = self._spec.checkpoint_steps
        return every - step % every if every else LARGEST

    def validated(self, epoch: int, metrics: Mapping[str, float]) -> str:
        """Take what the validation after `epoch` epochs found; what a person should know of it."""
        self.metrics = dict(metrics)
        every = self._spec.checkpoint_epochs
        if every and epoch % every == 0:
            self._waiting.add("epochs")
        if not self._spec.checkpoint_best:
            return ""
        if self._best_by in metrics:
            if self._is_best(metrics[self._best_by]):
                self._waiting.add("best")
            return ""
        if self._said_which_metrics:
            return ""
        self._said_which_metrics = True
        names = ", ".join(name.removeprefix(VALIDATION) for name in metrics) or "none"
        return (
            f"No checkpoint is the best by {self._metric!r}: "
            f"the validation has no such metric. It has: {names}."
        )

    def due(self, position: Position, now: float) -> set[str]:
        """The kinds of which a checkpoint is to be saved at `position`; each is told once."""
        due, self._waiting = self._waiting, set()
        if position.step > self._start:
            every, minutes = self._spec.checkpoint_steps, self._spec.checkpoint_minutes
            if every and position.step % every == 0:
                due.add("steps")
            if minutes and now - self._last_save >= 60 * minutes:
                due.add("minutes")
        return due

    def saved(self, now: float) -> None:
        """Note that a checkpoint was saved, whatever the reason: the clock starts anew."""
        self._last_save = now

    def _is_best(self, value: float) -> bool:
        if not math.isfinite(value):
            return False
        if self._best is not None:
            gain = self._best - value if self._lower_is_better else value - self._best
            if gain <= 0:
                return False
        self._best = value
        return True
