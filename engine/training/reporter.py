"""Sends the events of a training in progress: curves, progress, and metrics of each rank."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping

from engine.messages.events import EpochEnded, Metrics, Notice, Points, Progress
from engine.runs.checkpoints.checkpoint_files import Position
from engine.runs.run_state import STEP_SECONDS, THROUGHPUT
from engine.training import run_length
from engine.training.errors import LossNotFinite
from engine.training.pace import Pace
from engine.training.protocols import Session, Trainer

RANK_METRICS_SECONDS = 1.0
"""Least time between two reports of a rank's own metrics, and of the step time."""

EPISODE_GAP_STEPS = 100
"""An episode of losses that are not finite is reported once; this many finite losses end it."""


class Reporter:
    """Rank 0 reports what is the same on all ranks; every rank reports its own metrics."""

    def __init__(self, trainer: Trainer, session: Session, pace: Pace) -> None:
        self._trainer = trainer
        self._session = session
        self._pace = pace
        self._is_rank_zero = session.rank == 0
        self._rank_metrics_due = 0.0
        self._last_not_finite: int | None = None
        self.step = 0
        """The last step whose values are known; 0: there is none."""

    def trained(
        self, position: Position, step_metrics: Mapping[str, list[float]], begin: float, end: float
    ) -> None:
        """Report the steps up to `position`, done from `begin` to `end` (seconds since the epoch).

        `step_metrics` come from `Trainer.run_steps`. All ranks call this. Raises LossNotFinite on
        every rank, if the spec asks for it.
        """
        self.step = step = position.step
        points = []
        if self._is_rank_zero:
            for name, values in step_metrics.items():
                steps = list(range(step - len(values) + 1, step + 1))
                points.append(Points(f"train/{name}", steps, values))
            speed = self._pace.samples_per_second
            points.append(Points(THROUGHPUT, [step], [speed]))
        now = time.monotonic()
        if now >= self._rank_metrics_due:
            # The chunks of the warm-up are told apart: their times are not those that follow.
            self._rank_metrics_due = now + (RANK_METRICS_SECONDS if self._pace.is_warm else 0.0)
            seconds = self._pace.take_step_seconds()
            if self._is_rank_zero and seconds is not None:
                points.append(Points(STEP_SECONDS, [step], [seconds]))
            for name, value in self._trainer.rank_metrics().items():
                points.append(Points(f"rank/{self._session.rank}/{name}", [step], [value]))
        if points:
            self._session.emit(Metrics(begin, end, points))
        self.progress(position)
        self._check_finite(step_metrics, step)

    def validated(
        self, position: Position, metrics: Mapping[str, float], *, ends_epoch: bool
    ) -> None:
        """Report a validation and, if it `ends_epoch`, its end; `position` is the one after it."""
        if not self._is_rank_zero:
            return
        step, now = position.step, time.time()
        points = [Points(name, [step], [value]) for name, value in metrics.items()]
        if points:
            self._session.emit(Metrics(now, now, points))
        if ends_epoch:
            self._session.emit(EpochEnded(position.epoch, step, dict(metrics)))

    def progress(self, position: Position, validated: int = 0) -> None:
        """Report the progress; `validated` is the number of validation batches of this epoch."""
        if not self._is_rank_zero:
            return
        trainer, spec = self._trainer, self._session.spec
        total = run_length.total_steps(spec, position, trainer.steps_per_epoch)
        steps = max(0, total - position.step)
        batches = max(0, trainer.validation_batches) * self._validations_left(position) - validated
        is_known = total > 0
        self._session.emit(
            Progress(
                epoch=position.epoch + 1,
                step=position.step,
                samples_per_second=self._pace.samples_per_second,
                step_seconds=self._pace.step_seconds,
                seconds_left=self._pace.seconds_left(steps, batches) if is_known else 0.0,
            )
        )

    def _validations_left(self, position: Position) -> int:
        spec, size = self._session.spec, self._trainer.steps_per_epoch
        if not spec.steps:
            return spec.epochs - position.epoch
        ahead = position.batch + spec.steps - position.step
        return max(0, -(-ahead // size)) if size else 1

    def _check_finite(self, step_metrics: Mapping[str, list[float]], step: int) -> None:
        spec, losses = self._session.spec, step_metrics["loss"]
        checked = [losses]
        # Gradients count only if their step is skipped. With fp16, some overflow by design.
        if spec.on_nan == "skip" and spec.precision != "fp16":
            checked.append(step_metrics.get("gradient_norm", losses))
        for number, values in enumerate(zip(*checked, strict=True), step - len(losses) + 1):
            if all(map(math.isfinite, values)):
                continue
            if spec.on_nan == "stop":
                raise LossNotFinite(values[0], number, self._trainer.input_problem)
            last, self._last_not_finite = self._last_not_finite, number
            if self._is_rank_zero and (last is None or number - last > EPISODE_GAP_STEPS):
                problem = self._trainer.input_problem
                advice = problem[:1].lower() + problem[1:] or "try a smaller learning rate."
                text = _NOTICES[spec.on_nan].format(number, advice=advice)
                self._session.emit(Notice(text, rank=0))


_NOTICES = {
    "continue": "The loss is not a finite number since step {}: {advice}",
    "skip": "The loss or its gradients are not finite since step {}: the updates of such steps "
    "are left out.",
}
