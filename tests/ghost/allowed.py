"""For what the host may wait for a GPU, and what may stay on a GPU in a pause, with the reasons."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.ghost.trials import Trial


class Allowed(NamedTuple):
    """A place at which a GPU is waited for, or that allocates what stays."""

    place: str
    count: Callable[[Trial], int]
    """Waits, or bytes."""

    reason: str


def _has_unfused_optimizer(trial: Trial) -> bool:
    return trial.recipe == "keras" or trial.fields.get("optimizer") == "rmsprop"


def _curves(trial: Trial) -> int:
    has_norm = bool(trial.clip_norm) or trial.fields.get("on_nan") == "skip"
    return 1 + has_norm + (trial.precision == "fp16")  # its updates that were left out


def _has_outputs(trial: Trial) -> bool:
    return trial.strategy != "torch/pipeline" or trial.rank == trial.gpus - 1


PER_STEP = (
    Allowed(
        "read: pytorch/optimizer_step.py _update > amp/grad_scaler.py <genexpr>",
        lambda trial: int(trial.precision == "fp16" and _has_unfused_optimizer(trial)),
        "fp16 leaves out a step whose gradients are not finite. Only an optimizer with fused=True "
        "decides that on the GPU: Keras' have no such option, and neither has RMSprop.",
    ),
    Allowed(
        "copy to the host: pytorch/optimizer_step.py _is_finite",
        lambda trial: int(trial.fields.get("on_nan") == "skip"),
        "The run asked to leave out steps that are not finite, on all ranks: the host decides it.",
    ),
    Allowed(
        "blocking copy to the GPU: pytorch/state/weight_average.py update > "
        "optim/swa_utils.py update_parameters",
        lambda trial: int(trial.recipe == "average"),
        "PyTorch's AveragedModel counts its updates on the host, and copies the count to the GPU.",
    ),
)

PER_CHUNK: tuple[Allowed, ...] = ()

PER_READ = (
    Allowed(
        "event: pytorch/trainer.py read",
        _curves,
        "The values of the steps of a chunk go into the curves: one copy per curve, for which the "
        "host waits when the next chunk is on its way.",
    ),
)

PER_BATCH: tuple[Allowed, ...] = ()

PER_VALIDATION = (
    Allowed(
        "copy to the host: pytorch/trainer.py _numbers",
        lambda trial: int(_has_outputs(trial)),
        "The values of the batches of a chunk of a validation, all in one copy.",
    ),
)

LEFT = (
    Allowed(
        "pytorch/precision.py backward > amp/grad_scaler.py _lazy_init_scale_growth_tracker",
        lambda trial: 8 if trial.precision == "fp16" else 0,
        "The loss scale and its counter: two numbers.",
    ),
    Allowed(
        "pytorch/recipe/from_file.py <lambda> > torch/core.py convert_to_tensor",
        lambda trial: 8 if trial.recipe == "keras" else 0,
        "The seed and the counter of a Dropout of Keras.",
    ),
    Allowed(
        "pytorch/parallelism/keras_model.py __init__ > torch/core.py convert_to_tensor",
        lambda trial: 8 if trial.recipe == "keras" else 0,
        "The seed and the counter of Keras itself.",
    ),
    Allowed(
        "pytorch/parallelism/keras_model.py optimizer > torch/core.py convert_to_tensor",
        lambda trial: 4 if trial.recipe == "keras" else 0,
        "The learning rate of an optimizer of Keras.",
    ),
)


def expected(allowed: tuple[Allowed, ...], trial: Trial) -> dict[str, int]:
    """Return what a trial may show, by its place."""
    return {each.place: count for each in allowed if (count := each.count(trial))}
