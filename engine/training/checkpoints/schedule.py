"""Decides when a checkpoint is due: after steps, minutes or epochs, or at the best metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from engine.runs.checkpoints.checkpoint_files import Manifest, Position
from engine.spec.metric_direction import is_better, lower_is_better, split_direction
from engine.spec.run_spec import RunSpec
from engine.spec.spec_fields import LARGEST

VALIDATION = "validation/"


class CheckpointSchedule:
    """Decides which kinds of checkpoint are due, on rank 0 only. Times are monotonic seconds."""

    def __init__(
        self,
        spec: RunSpec,
        metric_directions: Mapping[str, str],
        start: Position,
        now: float,
        saved: Sequence[Manifest],
    ) -> None:
        """`saved` are the existing checkpoints; after a resume they hold the best metric so far."""
        self._spec = spec
        self._start = start.step
        self._last_save = now
        self._metric, _ = split_direction(spec.best_metric)
        self._best_metric = VALIDATION + self._metric
        self._lower_is_better = lower_is_better(self._metric, metric_directions)
        self._best: float | None = None
        self._due_after_validation: set[str] = set()
        self._has_warned = False
        self.metrics: dict[str, float] = {}
        """Metrics of the last validation, by name with `validation/`."""

        for manifest in saved:
            if manifest.position.step == start.step:
                self.metrics = manifest.metrics
            if "best" in manifest.kinds and self._best_metric in manifest.metrics:
                self._update_best(manifest.metrics[self._best_metric])

    def steps_until_due(self, step: int) -> int:
        """Return the number of steps from `step` to the next checkpoint of the kind `steps`."""
        every = self._spec.checkpoint_steps
        return every - step % every if every else LARGEST

    def validated(self, epoch: int, metrics: Mapping[str, float]) -> str:
        """Note the metrics of the validation after `epoch` epochs.

        Return a sentence, once, if `metrics` lack the metric that decides which model is best.
        """
        self.metrics = dict(metrics)
        every = self._spec.checkpoint_epochs
        if every and epoch % every == 0:
            self._due_after_validation.add("epochs")
        if not self._spec.best_metric:
            return ""
        if self._best_metric in metrics:
            if self._update_best(metrics[self._best_metric]):
                self._due_after_validation.add("best")
            return ""
        if self._has_warned:
            return ""
        self._has_warned = True
        names = ", ".join(name.removeprefix(VALIDATION) for name in metrics) or "none"
        return (
            f"No checkpoint is the best by {self._metric!r}: "
            f"the validation has no such metric. It has: {names}."
        )

    def due(self, position: Position, now: float) -> set[str]:
        """Return the kinds of checkpoint that became due since the last call."""
        due, self._due_after_validation = self._due_after_validation, set()
        if position.step > self._start:
            every, minutes = self._spec.checkpoint_steps, self._spec.checkpoint_minutes
            if every and position.step % every == 0:
                due.add("steps")
            if minutes and now - self._last_save >= 60 * minutes:
                due.add("minutes")
        return due

    def saved(self, now: float) -> None:
        """Note that a checkpoint of any kind was saved; the minutes count from `now`."""
        self._last_save = now

    def _update_best(self, value: float) -> bool:
        """Keep `value` if it is the best metric so far; return whether it is."""
        if not is_better(value, self._best, lowest=self._lower_is_better):
            return False
        self._best = value
        return True
