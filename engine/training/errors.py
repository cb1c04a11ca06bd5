"""Exceptions of the training whose text explains the failure to the user."""

from __future__ import annotations


class TrainingFailed(Exception):
    """A failure whose text needs no traceback: complete sentences for the user."""


class CheckpointMisfit(TrainingFailed):
    """A checkpoint that does not fit the model and optimizer, or whose files are damaged."""


class CannotBeSaved(TrainingFailed):
    """A model of which no checkpoint can be saved; raised before the training begins."""


class LossNotFinite(TrainingFailed):
    """The loss became NaN or infinite, and the spec says that the run ends then."""

    def __init__(self, loss: float, step: int) -> None:
        super().__init__(
            f"The loss is {loss} since step {step}. Try a smaller learning rate, warm-up steps or "
            "gradient clipping (clip norm); checkpoints from before that step are intact."
        )
