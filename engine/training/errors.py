"""Failures that the engine explains by itself."""

from __future__ import annotations


class TrainingFailed(Exception):
    """An end of the training that we explain ourselves: its text is sentences for a person."""


class LossNotFinite(TrainingFailed):
    """The loss became NaN or infinite, and the run is to end then."""

    def __init__(self, loss: float, step: int) -> None:
        super().__init__(
            f"The loss is {loss} since step {step}. Try a smaller learning rate, warm-up steps or "
            "gradient clipping (clip norm); checkpoints from before that step are intact."
        )
