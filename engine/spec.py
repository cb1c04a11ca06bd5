"""What a run was asked to be: `RunSpec`, and what is known about each of its fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from engine.field_info import FieldInfo, Setting, fields_of

LARGEST = 2**31 - 1
"""Seeds up to here suit torch, TensorFlow and numpy; no count of a run has any use beyond it."""

GROUPS = ("Training", "Optimizer", "Precision and speed", "Checkpoints", "Safety")
"""The headings under which a form shows the fields of a spec, in their order."""

_TRAINING, _OPTIMIZER, _SPEED, _CHECKPOINTS, _SAFETY = ({"group": name} for name in GROUPS)


class RunSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Everything that decides what a run computes. Stored as `spec.toml` in the run folder.

    A field with a title can be set in the form and on the command line: `engine.spec.FIELDS`.
    """

    recipe: str
    """Name of a built-in recipe, or the absolute path of a recipe file."""

    strategy: str
    """Full name of a strategy, such as `torch/ddp`."""

    devices: tuple[str, ...]
    """One entry per device: `cpu:0`, `cpu:1`, ... (logical CPU devices) or full GPU UUIDs."""

    settings: dict[str, Setting] = {}
    """Values for keyword arguments of the recipe's functions."""

    name: str = ""
    """What the user calls the run; empty means: named after the recipe."""

    batch_size: Annotated[
        int,
        Meta(
            title="Batch size",
            description="The global batch: samples per optimizer step, over all replicas and all "
            "accumulation steps together.",
            ge=1,
            le=LARGEST,
            extra=_TRAINING,
        ),
    ] = 128
    epochs: Annotated[
        int,
        Meta(
            title="Epochs",
            description="Passes over the training data.",
            ge=1,
            le=LARGEST,
            extra=_TRAINING,
        ),
    ] = 5
    learning_rate: Annotated[
        float,
        Meta(
            title="Learning rate",
            description="Passed to the optimizer; the schedule starts from it.",
            gt=0,
            extra=_TRAINING,
        ),
    ] = 1e-3
    seed: Annotated[
        int,
        Meta(
            title="Seed",
            description="Decides the initial weights, the order of the samples and every random "
            "draw.",
            ge=0,
            le=LARGEST,
            extra=_TRAINING,
        ),
    ] = 0

    optimizer: Annotated[
        Literal["recipe", "sgd", "adam", "adamw", "rmsprop"],
        Meta(
            title="Optimizer",
            description="recipe: the one that the recipe makes (AdamW if it makes none).",
            extra=_OPTIMIZER,
        ),
    ] = "recipe"
    momentum: Annotated[
        float,
        Meta(title="Momentum", description="Of sgd and rmsprop.", ge=0, le=1, extra=_OPTIMIZER),
    ] = 0.0
    weight_decay: Annotated[
        float,
        Meta(
            title="Weight decay",
            description="Of the optimizer chosen here; adamw applies it to the weights, the "
            "others add it to the gradient.",
            ge=0,
            extra=_OPTIMIZER,
        ),
    ] = 0.0
    schedule: Annotated[
        Literal["constant", "cosine", "one_cycle"],
        Meta(
            title="Schedule",
            description="How the learning rate changes from step to step: constant; cosine: down "
            "to 0; one_cycle: up from 1/25 for 30 % of the steps, then down to almost 0.",
            extra=_OPTIMIZER,
        ),
    ] = "constant"
    warmup_steps: Annotated[
        int,
        Meta(
            title="Warm-up steps",
            description="Steps over which the learning rate first rises linearly.",
            ge=0,
            le=LARGEST,
            extra=_OPTIMIZER,
        ),
    ] = 0
    accumulation: Annotated[
        int,
        Meta(
            title="Accumulation",
            description="Gradient accumulation: the global batch is computed in this many parts, "
            "one after the other, before one optimizer step. Needs less memory; the result is "
            "the same.",
            ge=1,
            le=LARGEST,
            extra=_OPTIMIZER,
        ),
    ] = 1
    clip_norm: Annotated[
        float,
        Meta(
            title="Clip norm",
            description="Gradient clipping: the norm of all gradients together is held to this. "
            "0: no clipping.",
            ge=0,
            extra=_OPTIMIZER,
        ),
    ] = 0.0

    precision: Annotated[
        Literal["fp32", "tf32", "bf16", "fp16"],
        Meta(
            title="Precision",
            description="fp32: full. tf32: faster multiplications on NVIDIA GPUs since Ampere. "
            "bf16, fp16: mixed precision, fp16 with a gradient scaler.",
            extra=_SPEED,
        ),
    ] = "fp32"
    compile: Annotated[
        bool,
        Meta(
            title="Compile",
            description="torch.compile or XLA: a slow start, then faster steps.",
            extra=_SPEED,
        ),
    ] = False
    loader_workers: Annotated[
        int,
        Meta(
            title="Loader workers",
            description="Processes per rank that fetch samples of a Dataset ahead. 0: the "
            "training process fetches them itself. Arrays need none.",
            ge=0,
            le=256,
            extra=_SPEED,
        ),
    ] = 0
    backend: Annotated[
        Literal["auto", "nccl", "gloo"],
        Meta(
            title="Backend",
            description="How ranks exchange gradients. auto: nccl on GPUs, gloo on CPUs.",
            extra=_SPEED,
        ),
    ] = "auto"
    workers_per_device: Annotated[
        int,
        Meta(
            title="Workers per device",
            description="Splits every device among this many workers, to try several out on one "
            "GPU (ranks over gloo, or TensorFlow's logical devices). Slower than one worker.",
            ge=1,
            le=64,
            extra=_SPEED,
        ),
    ] = 1
    cross_device: Annotated[
        Literal["auto", "nccl", "hierarchical", "one_device"],
        Meta(
            title="Cross-device sum",
            description="How the devices of one TensorFlow process add up their gradients. auto: "
            "nccl on GPUs.",
            extra=_SPEED,
        ),
    ] = "auto"
    memory_limit_mib: Annotated[
        int,
        Meta(
            title="Memory limit (MiB)",
            description="GPU memory that each TensorFlow worker may take. 0: as much as it needs.",
            ge=0,
            le=LARGEST,
            extra=_SPEED,
        ),
    ] = 0
    microbatches: Annotated[
        int,
        Meta(
            title="Micro-batches",
            description="Parts of the batch that are in the pipeline at once. 0: twice the number "
            "of stages.",
            ge=0,
            le=4096,
            extra=_SPEED,
        ),
    ] = 0

    checkpoint_minutes: Annotated[
        float,
        Meta(
            title="Every minutes",
            description="Minutes between two automatic checkpoints. 0: none by the clock.",
            ge=0,
            extra=_CHECKPOINTS,
        ),
    ] = 10.0
    checkpoint_steps: Annotated[
        int,
        Meta(
            title="Every steps",
            description="Optimizer steps between two automatic checkpoints. 0: none by steps.",
            ge=0,
            le=LARGEST,
            extra=_CHECKPOINTS,
        ),
    ] = 0
    checkpoint_epochs: Annotated[
        int,
        Meta(
            title="Every epochs",
            description="Epochs between two automatic checkpoints. 0: none by epochs.",
            ge=0,
            le=LARGEST,
            extra=_CHECKPOINTS,
        ),
    ] = 0
    checkpoint_best: Annotated[
        str,
        Meta(
            title="Best by",
            description="A validation metric, such as loss or accuracy: a checkpoint is saved "
            "whenever it is better than ever. Lower is better for names that hold loss, error or "
            "perplexity, higher for all others. Empty: none.",
            extra=_CHECKPOINTS,
        ),
    ] = ""
    keep_checkpoints: Annotated[
        int,
        Meta(
            title="Keep",
            description="How many automatic checkpoints are kept; older ones are deleted. Those "
            "that were asked for, the last and the best one are always kept.",
            ge=1,
            le=LARGEST,
            extra=_CHECKPOINTS,
        ),
    ] = 3

    stop_on_nan: Annotated[
        bool,
        Meta(
            title="Stop on NaN",
            description="End the run when the loss is no finite number; the last checkpoint stays.",
            extra=_SAFETY,
        ),
    ] = False
    gradient_norm: Annotated[
        bool,
        Meta(
            title="Record gradient norm",
            description="The norm of all gradients together, at every step.",
            extra=_SAFETY,
        ),
    ] = False
    deterministic: Annotated[
        bool,
        Meta(
            title="Deterministic",
            description="Only algorithms that give the same bits each time; slower on GPUs.",
            extra=_SAFETY,
        ),
    ] = False

    @property
    def slots(self) -> tuple[str, ...]:
        """The devices, each as often as workers share it."""
        return tuple(
            device for device in self.devices for _ in range(max(1, self.workers_per_device))
        )


def batch_arithmetic(batch_size: int, replicas: int, accumulation: int = 1) -> str:
    """The sentence that shows how a global batch is shared, such as `128 = 64 per replica × 2`."""
    parts = replicas * accumulation
    if parts < 1 or batch_size < 1:
        return ""
    share, rest = divmod(batch_size, parts)
    steps = f" × {accumulation} accumulation steps" if accumulation > 1 else ""
    if rest:
        sizes = f"{rest} × {share + 1} + {parts - rest} × {share}"
        return f"{batch_size} = {sizes} over {replicas} replica{_s(replicas)}{steps}"
    return f"{batch_size} = {share} per replica × {replicas} replica{_s(replicas)}{steps}"


def _s(count: int) -> str:
    return "s" if count > 1 else ""


FIELDS: Mapping[str, FieldInfo] = fields_of(RunSpec)
"""Every field of `RunSpec` that a form or a command line shows, by its name, in its order."""
