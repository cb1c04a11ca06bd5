"""Exceptions of the training whose text explains the failure to the user."""

from __future__ import annotations

import re

from engine.messages.events import Shrunk

_GPU_NUMBERS = (
    re.compile(r"GPU (\d+) has a total capacity"),  # PyTorch
    re.compile(r"\bdevice:GPU:(\d+)"),  # TensorFlow: the device of the operation
    re.compile(r"\bGPU_(\d+)_bfc"),  # and its allocator
)


class TrainingFailed(Exception):
    """A failure whose text needs no traceback: complete sentences for the user."""

    where: str = ""
    """File and line in the recipe, if the frames of the exception do not tell it."""


class CheckpointMisfit(TrainingFailed):
    """A checkpoint that does not fit the model and optimizer, or whose files are damaged."""


class CannotBeSaved(TrainingFailed):
    """A model of which no checkpoint can be saved; raised before the training begins."""


class LossNotFinite(TrainingFailed):
    """The loss became NaN or infinite, and the spec says that the run ends then."""

    def __init__(self, loss: float, step: int, input_problem: str = "") -> None:
        """`input_problem` says which inputs are not finite, if the loss is not because of them."""
        self.step = step
        advice = input_problem or (
            "Try a smaller learning rate, warm-up steps or gradient clipping (clip norm)."
        )
        super().__init__(
            f"The loss is {loss} since step {step}. {advice} Checkpoints from before that step are "
            "intact."
        )


class OutOfMemory(TrainingFailed):
    """A device has too little memory for the training."""

    what: str = ""
    """What was asked for, and where, such as `tried to allocate 1.20 GiB on GPU 1`."""

    shrunk: Shrunk | None = None
    """How the next attempt is to go on, if it may."""


def allocation(asked: str, device: str) -> str:
    """Return `OutOfMemory.what`; `asked` may be empty."""
    return f"tried to allocate {asked} on {device}" if asked else f"on {device}"


class DevicesFull(TrainingFailed):
    """Model and optimizer do not fit on their devices now; they stay in the host's memory.

    Every rank raises it together.
    """


def full_device(text: str, count: int) -> int | None:
    """Return which of the `count` devices of a process the text of an out-of-memory error names.

    They are in the order of the spec, in which CUDA_VISIBLE_DEVICES lists the GPUs: the number that
    a framework gives a GPU is its place. None: nothing tells it.
    """
    for pattern in _GPU_NUMBERS:
        if (found := pattern.search(text)) and int(found[1]) < count:
            return int(found[1])
    return 0 if count == 1 else None


def memory_advice(batch: int, accumulation: int, in_parts: str) -> str:
    """Return what the user can try when a device is out of memory.

    Each replica computes `batch` samples at once; `in_parts` names strategies that need less memory
    on each device.
    """
    return (
        f"Each replica computes {batch} samples at once. Try gradient accumulation "
        f"{2 * accumulation} (the same global batch in smaller parts), a smaller batch, precision "
        f"bf16, or the strategy {in_parts} on several devices."
    )
