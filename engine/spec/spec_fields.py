"""The types of the `RunSpec` fields that a person can set: limits, labels and explanations."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

LARGEST = 2**31 - 1
"""The largest seed that torch, TensorFlow and numpy accept, and the limit of all counts."""
MOST_WORKERS_PER_DEVICE = 64

GROUPS = ("Training", "Optimizer", "Precision and speed", "Checkpoints", "Safety", "Machine")
"""The headings of the fields in the form and in the help, in their order."""

_TRAINING, _OPTIMIZER, _SPEED, _CHECKPOINTS, _SAFETY, _MACHINE = (
    {"group": name} for name in GROUPS
)

BatchSize = Annotated[
    int,
    Meta(
        title="Batch size",
        description="The global batch: samples per optimizer step, over all replicas and all "
        "accumulation steps together.",
        ge=1,
        le=LARGEST,
        extra=_TRAINING,
    ),
]

Epochs = Annotated[
    int,
    Meta(
        title="Epochs",
        description="Passes over the training data.",
        ge=1,
        le=LARGEST,
        extra=_TRAINING,
    ),
]

LearningRate = Annotated[
    float,
    Meta(
        title="Learning rate",
        description="Passed to the optimizer; the schedule starts from it.",
        gt=0,
        extra=_TRAINING,
    ),
]

Seed = Annotated[
    int,
    Meta(
        title="Seed",
        description="Decides the initial weights, the order of the samples and every random draw.",
        ge=0,
        le=LARGEST,
        extra=_TRAINING,
    ),
]

Optimizer = Annotated[
    Literal["recipe", "sgd", "adam", "adamw", "rmsprop"],
    Meta(
        title="Optimizer",
        description="recipe: the one that the recipe makes (AdamW if it makes none).",
        extra=_OPTIMIZER,
    ),
]

Momentum = Annotated[
    float,
    Meta(title="Momentum", description="For sgd and rmsprop.", ge=0, le=1, extra=_OPTIMIZER),
]

WeightDecay = Annotated[
    float,
    Meta(
        title="Weight decay",
        description="For the optimizer chosen here; adamw applies it to the weights, the "
        "others add it to the gradient.",
        ge=0,
        extra=_OPTIMIZER,
    ),
]

Schedule = Annotated[
    Literal["constant", "cosine", "one_cycle"],
    Meta(
        title="Schedule",
        description="How the learning rate changes from step to step: constant; cosine: down "
        "to 0; one_cycle: up from 1/25 for 30 % of the steps, then down to almost 0.",
        extra=_OPTIMIZER,
    ),
]

WarmupSteps = Annotated[
    int,
    Meta(
        title="Warm-up steps",
        description="Steps over which the learning rate first rises linearly.",
        ge=0,
        le=LARGEST,
        extra=_OPTIMIZER,
    ),
]

Accumulation = Annotated[
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
]

ClipNorm = Annotated[
    float,
    Meta(
        title="Clip norm",
        description="Gradient clipping: the largest norm of all gradients together. "
        "0: no clipping.",
        ge=0,
        extra=_OPTIMIZER,
    ),
]

Precision = Annotated[
    Literal["fp32", "tf32", "bf16", "fp16"],
    Meta(
        title="Precision",
        description="fp32: full. tf32: faster multiplications on NVIDIA GPUs since Ampere. "
        "bf16, fp16: mixed precision, fp16 with a gradient scaler.",
        extra=_SPEED,
    ),
]

Compile = Annotated[
    bool,
    Meta(
        title="Compile",
        description="torch.compile or XLA: a slow start, then faster steps.",
        extra=_SPEED,
    ),
]

LoaderWorkers = Annotated[
    int,
    Meta(
        title="Loader workers",
        description="Processes per rank that fetch samples of a Dataset ahead. 0: the "
        "training process fetches them itself. Arrays need none.",
        ge=0,
        le=256,
        extra=_SPEED,
    ),
]

Backend = Annotated[
    Literal["auto", "nccl", "gloo"],
    Meta(
        title="Backend",
        description="How ranks exchange gradients. auto: nccl on GPUs, gloo on CPUs.",
        extra=_SPEED,
    ),
]

WorkersPerDevice = Annotated[
    int,
    Meta(
        title="Workers per device",
        description="Splits every device among this many workers, to try several out on one "
        "GPU (ranks over gloo, or TensorFlow's logical devices). Slower than one worker.",
        ge=1,
        le=MOST_WORKERS_PER_DEVICE,
        extra=_SPEED,
    ),
]

CrossDevice = Annotated[
    Literal["auto", "nccl", "hierarchical", "one_device"],
    Meta(
        title="Cross-device sum",
        description="How the devices of one TensorFlow process add up their gradients. auto: "
        "nccl on GPUs.",
        extra=_SPEED,
    ),
]

MemoryLimitMib = Annotated[
    int,
    Meta(
        title="Memory limit (MiB)",
        description="GPU memory that each TensorFlow worker may take. 0: as much as it needs.",
        ge=0,
        le=LARGEST,
        extra=_SPEED,
    ),
]

Microbatches = Annotated[
    int,
    Meta(
        title="Micro-batches",
        description="Parts of the batch that are in the pipeline at once. 0: twice the number "
        "of stages.",
        ge=0,
        le=4096,
        extra=_SPEED,
    ),
]

CheckpointMinutes = Annotated[
    float,
    Meta(
        title="Every minutes",
        description="Minutes between two automatic checkpoints. 0: none by time.",
        ge=0,
        extra=_CHECKPOINTS,
    ),
]

CheckpointSteps = Annotated[
    int,
    Meta(
        title="Every steps",
        description="Optimizer steps between two automatic checkpoints. 0: none by steps.",
        ge=0,
        le=LARGEST,
        extra=_CHECKPOINTS,
    ),
]

CheckpointEpochs = Annotated[
    int,
    Meta(
        title="Every epochs",
        description="Epochs between two automatic checkpoints. 0: none by epochs.",
        ge=0,
        le=LARGEST,
        extra=_CHECKPOINTS,
    ),
]

CheckpointBest = Annotated[
    str,
    Meta(
        title="Best by",
        description="A validation metric, such as loss or accuracy: a checkpoint is saved at each "
        "new best value. The name decides whether lower (loss, mae, wer) or higher (accuracy, f1) "
        "is better; mae:min or score:max overrides this. Empty: none.",
        extra=_CHECKPOINTS,
    ),
]

KeepCheckpoints = Annotated[
    int,
    Meta(
        title="Keep",
        description="Number of automatic checkpoints to keep; older ones are deleted. Requested "
        "checkpoints, the last one and the best one are always kept.",
        ge=1,
        le=LARGEST,
        extra=_CHECKPOINTS,
    ),
]

OnNan = Annotated[
    Literal["continue", "skip", "stop"],
    Meta(
        title="On NaN",
        description="When the loss is NaN or infinite. continue: train on. skip: skip the "
        "update of this step, also if the gradient norm is not finite; this checks every step "
        "and records the norm. stop: end the run; the last checkpoint stays.",
        extra=_SAFETY,
    ),
]

GradientNorm = Annotated[
    bool,
    Meta(
        title="Record gradient norm",
        description="The norm of all gradients together, at every step.",
        extra=_SAFETY,
    ),
]

Deterministic = Annotated[
    bool,
    Meta(
        title="Deterministic",
        description="Only algorithms that give the same bits each time; slower on GPUs.",
        extra=_SAFETY,
    ),
]

MaxRestarts = Annotated[
    int,
    Meta(
        title="Restarts",
        description="How often a failed run restarts automatically from its last checkpoint. A "
        "run that fails twice at the same step, or before its first step, does not. 0: never.",
        ge=0,
        le=1000,
        extra=_SAFETY,
    ),
]

HangMinutes = Annotated[
    float,
    Meta(
        title="Hang after minutes",
        description="Minutes without a step (at least the time of ten steps) after which the run "
        "hangs and shows the stack of every rank; ten times that for a first step, a validation or "
        "a checkpoint. With restarts allowed, it fails after twice the time. 0: never.",
        ge=0,
        extra=_SAFETY,
    ),
]

StopSeconds = Annotated[
    float,
    Meta(
        title="Seconds to stop",
        description="After Stop: seconds (at least the time of ten steps) to finish the step, and "
        "then for the checkpoint. While a checkpoint is still being written, it has this time "
        "again; then the workers are ended without one.",
        ge=1,
        le=86_400,
        extra=_SAFETY,
    ),
]

OrphanSeconds = Annotated[
    float,
    Meta(
        title="Seconds without supervisor",
        description="When the supervisor of the run was killed: seconds in which its workers save "
        "a checkpoint and leave; then they are ended. 0: they end at once, without a checkpoint.",
        ge=0,
        le=86_400,
        extra=_SAFETY,
    ),
]

OnDiskFull = Annotated[
    Literal["pause", "stop"],
    Meta(
        title="On full disk",
        description="When the run folder cannot be written. pause: wait until you free space "
        "and resume. stop: end the run, with a last checkpoint if there is room for one.",
        extra=_SAFETY,
    ),
]

Queue = Annotated[
    Literal["gpus", "always", "never"],
    Meta(
        title="Queue",
        description="The devices for which the run waits in the queue until no other run uses "
        "them. gpus: its GPUs. always: logical CPU devices too. never: it starts now and shares "
        "them.",
        extra=_MACHINE,
    ),
]

ColdStart = Annotated[
    bool,
    Meta(
        title="Cold start",
        description="Each worker starts as a new program and imports its framework, which takes "
        "seconds longer, instead of being forked from a process that has imported it.",
        extra=_MACHINE,
    ),
]

KeepAwake = Annotated[
    bool,
    Meta(
        title="Keep awake",
        description="The machine does not go to sleep while the run is active; it may sleep "
        "while the run is paused or waits in the queue.",
        extra=_MACHINE,
    ),
]
