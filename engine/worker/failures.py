"""Failures that the engine explains by itself."""

from __future__ import annotations

import math
from collections.abc import Sequence


class TrainingFailed(Exception):
    """An end of the training that we explain ourselves: its text is sentences for a person."""


class LossNotFinite(TrainingFailed):
    """The loss became NaN or infinite, and the run is to end then."""

    def __init__(self, loss: float, step: int) -> None:
        super().__init__(
            f"The loss is {loss} since step {step}. Try a smaller learning rate, warm-up steps or "
            "gradient clipping (clip norm); checkpoints from before that step are intact."
        )


def first_not_finite(losses: Sequence[float]) -> int | None:
    """Index of the first of `losses` that is NaN or infinite; None when all are numbers."""
    return next((i for i, loss in enumerate(losses) if not math.isfinite(loss)), None)
