"""The types of the `RunSpec` fields that a person can set: limits, labels and explanations.

`extra` of a `Meta` holds the `group`, and may hold `choices` (for each value its text in the form
and its meaning) and `zero` (what an empty field means, which is 0 or no text).
"""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

LARGEST = 2**31 - 1
"""The largest seed that torch, TensorFlow and numpy accept, and the limit of all counts."""
MOST_WORKERS_PER_DEVICE = 64

GROUPS = (
    *("Training", "Optimizer", "Early stopping and limits", "Precision and speed"),
    *("Checkpoints", "Reliability", "Machine"),
)
"""The headings of the fields in the form and in the help, in their order."""

_TRAINING, _OPTIMIZER, _STOPPING, _SPEED, _CHECKPOINTS, _RELIABILITY, _MACHINE = (
    {"group": name} for name in GROUPS
)

BatchSize = Annotated[
    int,
    Meta(
        title="Batch size",
        description="Global batch size: samples per optimizer step, over all devices and all "
        "gradient accumulation steps together.",
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

Steps = Annotated[
    int,
    Meta(
        title="Max steps",
        description="Optimizer steps after which the training ends, in place of the epochs. "
        "0: no limit, the epochs decide.",
        ge=0,
        le=LARGEST,
        extra={**_TRAINING, "zero": "none"},
    ),
]

LearningRate = Annotated[
    float,
    Meta(
        title="Learning rate",
        description="The learning rate of the optimizer; the schedule changes it from step to "
        "step.",
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
        description="The optimizer of the recipe (AdamW if it makes none), or one in its place.",
        extra={
            **_OPTIMIZER,
            "choices": {
                "recipe": ("Recipe's own", ""),
                "sgd": ("SGD", ""),
                "adam": ("Adam", ""),
                "adamw": ("AdamW", ""),
                "rmsprop": ("RMSprop", ""),
            },
        },
    ),
]

Momentum = Annotated[
    float,
    Meta(title="Momentum", description="For SGD and RMSprop.", ge=0, le=1, extra=_OPTIMIZER),
]

WeightDecay = Annotated[
    float,
    Meta(
        title="Weight decay",
        description="For the optimizer chosen here. AdamW applies it to the weights; the others "
        "add it to the gradients (L2).",
        ge=0,
        extra=_OPTIMIZER,
    ),
]

Schedule = Annotated[
    Literal["constant", "cosine", "one_cycle"],
    Meta(
        title="LR schedule",
        description="How the learning rate changes from step to step.",
        extra={
            **_OPTIMIZER,
            "choices": {
                "constant": ("Constant", ""),
                "cosine": ("Cosine", "down to 0"),
                "one_cycle": (
                    "One cycle",
                    "up from 1/25 for 30 % of the steps, then down to almost 0",
                ),
            },
        },
    ),
]

WarmupSteps = Annotated[
    int,
    Meta(
        title="Warmup steps",
        description="Steps over which the learning rate first rises linearly. 0: no warmup.",
        ge=0,
        le=LARGEST,
        extra={**_OPTIMIZER, "zero": "none"},
    ),
]

Accumulation = Annotated[
    int,
    Meta(
        title="Gradient accumulation steps",
        description="The global batch is computed in this many parts, one after the other, "
        "before one optimizer step. Needs less memory; the result is the same.",
        ge=1,
        le=LARGEST,
        extra=_OPTIMIZER,
    ),
]

ClipNorm = Annotated[
    float,
    Meta(
        title="Max gradient norm",
        description="Gradient clipping: the largest norm of all gradients together. "
        "0: no clipping.",
        ge=0,
        extra={**_OPTIMIZER, "zero": "no clipping"},
    ),
]

EarlyStopping = Annotated[
    str,
    Meta(
        title="Early stopping (metric)",
        description="A validation metric, such as loss or accuracy: the training ends when it has "
        "not improved for the evaluations of the patience. A recipe is evaluated after each epoch, "
        "a script each time that it logs the metric. The best checkpoint is kept. The name of the "
        "metric decides whether lower or higher is better; mae:min or score:max overrides this. "
        "Empty: off.",
        extra={**_STOPPING, "zero": "off"},
    ),
]

Patience = Annotated[
    int,
    Meta(
        title="Patience (evaluations)",
        description="Evaluations without an improvement after which early stopping ends the "
        "training: validations of a recipe, logged values of a script.",
        ge=1,
        le=LARGEST,
        extra=_STOPPING,
    ),
]

MinDelta = Annotated[
    float,
    Meta(
        title="Min delta",
        description="A change of the metric that is not larger than this is no improvement for "
        "early stopping.",
        ge=0,
        extra=_STOPPING,
    ),
]

TimeLimitMinutes = Annotated[
    float,
    Meta(
        title="Time limit (min)",
        description="Minutes after which the run saves a checkpoint and is finished: of all "
        "attempts together, with pauses, without the time in the queue. 0: no limit.",
        ge=0,
        extra={**_STOPPING, "zero": "none"},
    ),
]

EnergyLimitWh = Annotated[
    float,
    Meta(
        title="Energy limit (Wh)",
        description="Watt-hours after which the run saves a checkpoint and is finished: what all "
        "its GPUs have used while it trained, by their own measurement of power. 0: no limit.",
        ge=0,
        extra={**_STOPPING, "zero": "none"},
    ),
]

Precision = Annotated[
    Literal["default", "fp32", "tf32", "bf16", "fp16"],
    Meta(
        title="Precision",
        description="The format of the computation.",
        extra={
            **_SPEED,
            "choices": {
                "default": (
                    "Default",
                    "that of PyTorch or TensorFlow: FP32, with convolutions in TF32 on NVIDIA GPUs "
                    "since Ampere, and products of matrices too under TensorFlow",
                ),
                "fp32": ("FP32", "full precision, also on these GPUs"),
                "tf32": ("TF32", "convolutions and products of matrices on these GPUs, faster"),
                "bf16": ("BF16 mixed", "mixed precision"),
                "fp16": ("FP16 mixed", "mixed precision with a gradient scaler"),
            },
        },
    ),
]

Compile = Annotated[
    bool,
    Meta(
        title="Compile the model",
        description="torch.compile, or XLA under TensorFlow: a slow start, then faster steps.",
        extra=_SPEED,
    ),
]

LoaderWorkers = Annotated[
    int,
    Meta(
        title="Data loader workers",
        description="Processes per rank that load samples of a Dataset ahead (num_workers). 0: "
        "the training process loads them itself. Arrays need none.",
        ge=0,
        le=256,
        extra=_SPEED,
    ),
]

Backend = Annotated[
    Literal["auto", "nccl", "gloo"],
    Meta(
        title="Communication backend",
        description="How ranks exchange gradients.",
        extra={
            **_SPEED,
            "choices": {
                "auto": ("Auto", "NCCL on GPUs, Gloo on CPUs"),
                "nccl": ("NCCL", ""),
                "gloo": ("Gloo", ""),
            },
        },
    ),
]

WorkersPerDevice = Annotated[
    int,
    Meta(
        title="Workers per device",
        description="Splits every device among this many workers, to try several out on one "
        "GPU (ranks over Gloo, or TensorFlow's logical devices). Slower than one worker.",
        ge=1,
        le=MOST_WORKERS_PER_DEVICE,
        extra=_SPEED,
    ),
]

CrossDevice = Annotated[
    Literal["auto", "nccl", "hierarchical", "one_device"],
    Meta(
        title="Cross-device all-reduce",
        description="How the devices of one TensorFlow process add up their gradients.",
        extra={
            **_SPEED,
            "choices": {
                "auto": ("Auto", "NCCL on GPUs"),
                "nccl": ("NCCL", ""),
                "hierarchical": ("Hierarchical copy", ""),
                "one_device": ("On one device", ""),
            },
        },
    ),
]

MemoryLimitMib = Annotated[
    int,
    Meta(
        title="GPU memory limit (MiB)",
        description="GPU memory that each TensorFlow worker may take. 0: as much as it needs.",
        ge=0,
        le=LARGEST,
        extra={**_SPEED, "zero": "no limit"},
    ),
]

Microbatches = Annotated[
    int,
    Meta(
        title="Pipeline micro-batches",
        description="Parts of the batch that are in the pipeline at once. 0: twice the number "
        "of stages.",
        ge=0,
        le=4096,
        extra={**_SPEED, "zero": "2 × stages"},
    ),
]

CheckpointMinutes = Annotated[
    float,
    Meta(
        title="Save every (min)",
        description="Minutes between two automatic checkpoints. 0: none by time.",
        ge=0,
        extra={**_CHECKPOINTS, "zero": "off"},
    ),
]

CheckpointSteps = Annotated[
    int,
    Meta(
        title="Save every (steps)",
        description="Optimizer steps between two automatic checkpoints. 0: none by steps.",
        ge=0,
        le=LARGEST,
        extra={**_CHECKPOINTS, "zero": "off"},
    ),
]

CheckpointEpochs = Annotated[
    int,
    Meta(
        title="Save every (epochs)",
        description="Epochs between two automatic checkpoints. 0: none by epochs.",
        ge=0,
        le=LARGEST,
        extra={**_CHECKPOINTS, "zero": "off"},
    ),
]

CheckpointBest = Annotated[
    str,
    Meta(
        title="Keep best (metric)",
        description="A validation metric, such as loss or accuracy: a checkpoint is saved at each "
        "new best value. The name decides whether lower (loss, mae, wer) or higher (accuracy, f1) "
        "is better; mae:min or score:max overrides this. Empty: off.",
        extra={**_CHECKPOINTS, "zero": "off"},
    ),
]

KeepCheckpoints = Annotated[
    int,
    Meta(
        title="Keep newest",
        description="Number of automatic checkpoints to keep; older ones are deleted. Requested "
        "checkpoints, the last one and the best one are always kept.",
        ge=1,
        le=LARGEST,
        extra=_CHECKPOINTS,
    ),
]

SharedFolder = Annotated[
    str,
    Meta(
        title="Shared folder",
        description="For a run over several machines of a cluster: an absolute path of a folder "
        "that all of them see, such as on a file server. The checkpoints of the run lie in a "
        "folder of their own there, and each machine writes its part of them itself. Empty: each "
        "sends its part to this machine.",
        extra={**_CHECKPOINTS, "zero": "run folder"},
    ),
]

OnNan = Annotated[
    Literal["continue", "skip", "stop"],
    Meta(
        title="If loss is NaN",
        description="What happens when the loss is NaN or infinite.",
        extra={
            **_RELIABILITY,
            "choices": {
                "continue": ("Keep going", "the training goes on"),
                "skip": (
                    "Skip step",
                    "the weights are not updated in this step, also if the gradient norm is not "
                    "finite; checks every step and logs the norm",
                ),
                "stop": ("Stop run", "the run ends; its last checkpoint stays"),
            },
        },
    ),
]

OnOom = Annotated[
    Literal["stop", "shrink"],
    Meta(
        title="If out of memory",
        description="What happens when a device has no memory left.",
        extra={
            **_RELIABILITY,
            "choices": {
                "stop": ("Stop run", "the run fails and says what to try"),
                "shrink": (
                    "Smaller parts",
                    "all ranks compute the same global batch in twice as many, smaller parts "
                    "(gradient accumulation), down to one sample: from the last step, or else from "
                    "the newest checkpoint",
                ),
            },
        },
    ),
]

GradientNorm = Annotated[
    bool,
    Meta(
        title="Log gradient norm",
        description="The norm of all gradients together, at every step.",
        extra=_OPTIMIZER,
    ),
]

Deterministic = Annotated[
    bool,
    Meta(
        title="Deterministic",
        description="Only algorithms that give the same bits each time; slower on GPUs. Without "
        "it, a run or a resume on GPUs is repeated up to rounding only.",
        extra=_TRAINING,
    ),
]

MaxRestarts = Annotated[
    int,
    Meta(
        title="Max restarts",
        description="How often a failed run restarts by itself from its last checkpoint. A "
        "run that fails twice at the same step, or before its first step, does not. 0: never.",
        ge=0,
        le=1000,
        extra={**_RELIABILITY, "zero": "never"},
    ),
]

MinMachines = Annotated[
    int,
    Meta(
        title="Min machines",
        description="For a run over several machines of a cluster: when one of them is lost, the "
        "run goes on from its newest checkpoint as soon as at least so many are left, with this "
        "one. 0: it waits until all are back.",
        ge=0,
        le=1000,
        extra={**_RELIABILITY, "zero": "all"},
    ),
]

HangMinutes = Annotated[
    float,
    Meta(
        title="Report hang after (min)",
        description="Minutes without a step (at least the time of ten steps) after which the run "
        "counts as hung and shows the stack of every rank; ten times that for a first step, a "
        "validation or a checkpoint. With restarts allowed, it fails after twice the time. 0: "
        "never.",
        ge=0,
        extra={**_RELIABILITY, "zero": "never"},
    ),
]

StopSeconds = Annotated[
    float,
    Meta(
        title="Stop timeout (s)",
        description="After Stop: seconds (at least the time of ten steps) to finish the step, and "
        "then for the checkpoint. While a checkpoint is still being written, it has this time "
        "again; then the workers are killed without one.",
        ge=1,
        le=86_400,
        extra=_RELIABILITY,
    ),
]

OrphanSeconds = Annotated[
    float,
    Meta(
        title="Orphan timeout (s)",
        description="If the supervisor of the run was killed: seconds in which its workers save "
        "a checkpoint and leave; then they are killed. 0: they end at once, without a checkpoint.",
        ge=0,
        le=86_400,
        extra={**_RELIABILITY, "zero": "end at once"},
    ),
]

OnDiskFull = Annotated[
    Literal["pause", "stop"],
    Meta(
        title="If disk is full",
        description="What happens when the run folder cannot be written.",
        extra={
            **_RELIABILITY,
            "choices": {
                "pause": ("Pause run", "it waits until you free space and resume"),
                "stop": ("Stop run", "with a last checkpoint if there is room for one"),
            },
        },
    ),
]

Queue = Annotated[
    Literal["gpus", "always", "never"],
    Meta(
        title="Wait for devices",
        description="For which devices the run waits in the queue until no other run uses them.",
        extra={
            **_MACHINE,
            "choices": {
                "gpus": ("GPUs", "for its GPUs"),
                "always": ("GPUs and CPU", "for logical CPU devices too"),
                "never": ("No, share them", "it starts now, and shares its devices"),
            },
        },
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
        title="Prevent sleep",
        description="The machine does not go to sleep while the run is active; it may sleep "
        "while the run is paused or waits in the queue.",
        extra=_MACHINE,
    ),
]

TensorBoard = Annotated[
    bool,
    Meta(
        title="TensorBoard log",
        description="While the run goes on, everything that it reports is also written as a log "
        "that TensorBoard reads. No training step waits for it.",
        extra=_MACHINE,
    ),
]

TensorBoardFolder = Annotated[
    str,
    Meta(
        title="TensorBoard folder",
        description="Where the log is written, as an absolute path: each run has a folder of its "
        "own in there.",
        extra={**_MACHINE, "zero": "run folder"},
    ),
]
