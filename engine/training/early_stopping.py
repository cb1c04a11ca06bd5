"""Decides when a training ends because a metric of its validations does not improve any more."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from engine.runs.checkpoints.checkpoint_files import final_folder
from engine.spec.metric_direction import is_better, long_name, lower_is_better, split_direction
from engine.spec.run_spec import RunSpec
from engine.training.errors import TrainingFailed

EARLY_STOPPING = "TRAINDECK_EARLY_STOPPING"
"""The environment variable with what a resumed run has found before: see `EarlyStopping.state`."""

VALIDATION = "validation/"


class _Found(msgspec.Struct, array_like=True):
    """What the validations until now have found. Every field is the same on all ranks."""

    best: float | None = None
    best_step: int = 0
    reference: float | None = None
    """The value that the next ones must be better than, by the minimum change."""

    without: int = 0
    """Evaluations since then without a better value."""

    last_step: int = -1


class EarlyStopping:
    """Counts the evaluations without a better value. Without a metric in the spec, it does nothing.

    An evaluation is a validation of a recipe that has the metric, or a value that a script logs.
    """

    def __init__(self, spec: RunSpec, directions: Mapping[str, str], state: str = "") -> None:
        """`directions`: `min` or `max` by metric; `state`: from the attempt before, or empty."""
        self.metric, _ = split_direction(spec.early_stopping)
        self._lowest = lower_is_better(self.metric, directions)
        self._patience, self._change = spec.patience, spec.min_delta
        self._found = msgspec.json.decode(state, type=_Found) if state else _Found()
        self._told_best_step: int | None = None
        """The step of the best value that the first reason of this attempt has named."""

    @classmethod
    def of_worker(cls, spec: RunSpec, directions: Mapping[str, str]) -> EarlyStopping:
        """Return that of a rank, which goes on where the attempt before has ended."""
        return cls(spec, directions, os.environ.get(EARLY_STOPPING, ""))

    @property
    def series(self) -> tuple[str, ...]:
        """The series that may hold the metric; a script may log it under a name of its own.

        `val/loss` is also `validation/loss`, as in a filter.
        """
        if not self.metric:
            return ()
        return tuple(dict.fromkeys((VALIDATION + self.metric, self.metric, long_name(self.metric))))

    @property
    def state(self) -> str:
        """What was found until now, for the workers of the next attempt."""
        return msgspec.json.encode(self._found).decode()

    @property
    def has_values(self) -> bool:
        """Whether the metric was seen at least once."""
        return self._found.last_step >= 0

    @property
    def improved_later(self) -> str:
        """Say, in a sentence, that a value was better than the best that the reason has named.

        A script goes on until it is stopped. Empty: none was better, or there is no reason.
        """
        best, step, told = self._found.best, self._found.best_step, self._told_best_step
        if best is None or told is None or step == told:
            return ""
        return f"Before the end it improved: the best is {best:.4g} after step {step}."

    def check(self, validates: bool) -> None:
        """Raise TrainingFailed if there is nothing that it can watch."""
        if self.metric and not validates:
            raise TrainingFailed(
                f"Early stopping watches {self.metric!r}, a metric of the validation, and there is "
                "no validation data: give some, or leave the field Early stopping empty."
            )

    def validated(self, step: int, metrics: Mapping[str, float], folder: Path) -> str:
        """Note the metrics of a validation. Return why the training ends now, in a sentence; empty:
        it goes on. All ranks decide alike. Raises TrainingFailed if the metric is not among them.

        `folder` of the run: a checkpoint of the best value is named.
        """
        if not self.metric:
            return ""
        value = metrics.get(VALIDATION + self.metric)
        if value is not None:
            return self.add(step, value, folder)
        if self.has_values:
            return ""
        names = ", ".join(sorted(name.removeprefix(VALIDATION) for name in metrics)) or "none"
        raise TrainingFailed(
            f"Early stopping watches {self.metric!r}, and the validation has no such metric. It "
            f"has: {names}."
        )

    def add(self, step: int, value: float, folder: Path | None = None) -> str:
        """Note the value of one evaluation, as `validated` does."""
        found = self._found
        if step <= found.last_step:
            return ""
        found.last_step = step
        if is_better(value, found.best, lowest=self._lowest):
            found.best, found.best_step = value, step
        worse = value + self._change if self._lowest else value - self._change
        if is_better(worse, found.reference, lowest=self._lowest):
            found.reference, found.without = value, 0
            return ""
        found.without += 1
        return self._reason(folder) if found.without >= self._patience else ""

    def add_all(self, values: Iterable[tuple[int, float]]) -> None:
        """Note the values of earlier attempts, by step."""
        for step, value in values:
            self.add(step, value)

    def _reason(self, folder: Path | None) -> str:
        found = self._found
        count = "1 evaluation" if found.without == 1 else f"{found.without} evaluations"
        by = f" by more than {self._change:g}" if self._change else ""
        last = f"the last after step {found.last_step}"
        text = f"Early stopping: {self.metric} has not improved{by} for {count}, {last}."
        if self._told_best_step is None:
            self._told_best_step = found.best_step
        if found.best is None:
            return f"{text} It was never a finite number."
        saved = ""
        if folder is not None:
            best = final_folder(folder, found.best_step)
            with contextlib.suppress(OSError):
                saved = f", in checkpoint {best.name}" if best.exists() else ""
        return f"{text} The best was {found.best:.4g} after step {found.best_step}{saved}."
