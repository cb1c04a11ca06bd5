"""Whether the functions of a recipe can be called as the engine calls them."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from typing import Any

from engine.training.errors import TrainingFailed

_PARAMETERS = {
    "optimizer": ("parameters", "learning_rate"),
    "step": ("model", "batch"),
    "weight": ("batch",),
    "validate": ("model", "batch"),
    "optimizers": ("model", "learning_rate"),
    "ema": ("model",),
    "on_epoch": ("model", "epoch", "metrics"),
    "collate": ("samples",),
    "sample_loss": ("outputs", "targets"),
}
"""What the engine passes, by position; a recipe could have functions of these names for other
purposes."""

SAMPLE_LOSS = ("sample_loss(outputs, targets)", "sample_loss(model, batch)")
"""As it is called; the second one for a recipe with step(model, batch)."""


def check_sample_losses(shape: Sequence[int], samples: int, *, has_step: bool) -> None:
    """Raise TrainingFailed if what `sample_loss` of a recipe gave is not one loss per sample."""
    if tuple(shape) != (samples,):
        raise TrainingFailed(
            f"{SAMPLE_LOSS[has_step]} of the recipe gave the shape {tuple(shape)} for {samples} "
            f"samples, and not one loss for each of them, which is the shape ({samples},)."
        )


def check_mean_of_losses(losses: Sequence[float], whole: float) -> None:
    """Raise TrainingFailed if what `sample_loss` of a recipe gave for outputs cannot be the parts
    of `whole`, the loss of the same outputs: class weights or a penalty make less of a difference.
    """
    mean = math.fsum(losses) / len(losses) if losses else whole
    is_near = abs(mean - whole) <= 0.5 * max(abs(mean), abs(whole)) + 1e-3
    if math.isfinite(whole) and not is_near:
        raise TrainingFailed(
            f"{SAMPLE_LOSS[False]} of the recipe gave losses with the mean {mean:.4g} for outputs "
            f"of which its loss is {whole:.4g}: they are not the losses of its samples."
        )


def check_call(name: str, function: Any) -> None:
    """Raise TrainingFailed if the recipe's `function` cannot be called as the engine does it."""
    passed = _PARAMETERS.get(name)
    if passed is None or function is None:
        return
    call = f"{name}({', '.join(passed)})"
    if not callable(function):
        raise TrainingFailed(
            f"{name} of the recipe is a {type(function).__name__}: it must be a function "
            f"{call}. If it is for another purpose, give it another name."
        )
    try:
        signature = inspect.signature(function)
    except ValueError:
        return  # one in C may not tell its parameters
    try:
        signature.bind_partial(*passed)
    except TypeError:
        own = f"{name}({', '.join(signature.parameters)})"
        raise TrainingFailed(
            f"{own} of the recipe does not fit: the engine calls {call}. If it is for another "
            "purpose, give it another name."
        ) from None
