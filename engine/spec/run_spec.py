"""The settings of a run: `RunSpec`, and the description of each of its fields."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from engine.spec import spec_fields
from engine.spec.field_info import FieldInfo, Setting, fields_of


class RunSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All settings that decide what a run computes, stored as `spec.toml` in its folder.

    The form and the command line can set the fields whose types are in `engine.spec.spec_fields`.
    """

    recipe: str
    """Name of a built-in recipe, or the absolute path of a recipe file, script or program."""

    strategy: str
    """Full name of a strategy, such as `torch/ddp`."""

    devices: tuple[str, ...]
    """One entry per device: `cpu:0`, `cpu:1`, ... (logical CPU devices) or full GPU UUIDs."""

    settings: dict[str, Setting] = {}
    """Values for keyword arguments of the recipe's functions."""

    name: str = ""
    """The user's name for the run; empty: the name of the recipe."""

    command: tuple[str, ...] = ()
    """The command of a run of a script, such as `train.py --lr 0.1`; empty: the run of a recipe."""

    working_folder: str = ""
    """Where the command runs, as an absolute path; empty: in the folder of the script."""

    variables: dict[str, str] = {}
    """Environment variables of the command. Files hold only what `engine.scripts.secrets` lets."""

    stored_variables: tuple[str, ...] = ()
    """Names of variables whose values are stored because the user says so."""

    secret_variables: tuple[str, ...] = ()
    """Names of variables whose values only the environment of the supervisor holds. The command
    names those that stand for secrets among its words, such as `${ARGUMENT_PASSWORD}`."""

    fingerprints: dict[str, str] = {}
    """By the name of a secret variable, what tells its value from another one."""

    interpreter: str = ""
    """Path of the Python that runs the command; empty: the one of Traindeck."""

    resume_arguments: str = ""
    """What a resume adds to the command, such as `--resume {latest}`, with the newest checkpoint
    that the script itself has written; empty: the command starts again as it was."""

    imported_from: str = ""
    """The file or folder of which this run was made, as an absolute path; empty: it was trained
    here. It cannot be resumed, and its other settings but `settings` have no meaning."""

    output_figures: bool = True
    """Whether figures are read from lines of the output of a script that sends none otherwise."""

    batch_size: spec_fields.BatchSize = 128
    epochs: spec_fields.Epochs = 5
    steps: spec_fields.Steps = 0
    learning_rate: spec_fields.LearningRate = 1e-3
    seed: spec_fields.Seed = 0

    optimizer: spec_fields.Optimizer = "recipe"
    momentum: spec_fields.Momentum = 0.0
    weight_decay: spec_fields.WeightDecay = 0.0
    schedule: spec_fields.Schedule = "constant"
    warmup_steps: spec_fields.WarmupSteps = 0
    accumulation: spec_fields.Accumulation = 1
    clip_norm: spec_fields.ClipNorm = 0.0

    early_stopping: spec_fields.EarlyStopping = ""
    patience: spec_fields.Patience = 10
    min_delta: spec_fields.MinDelta = 0.0
    time_limit_minutes: spec_fields.TimeLimitMinutes = 0.0
    energy_limit_wh: spec_fields.EnergyLimitWh = 0.0

    precision: spec_fields.Precision = "default"
    compile: spec_fields.Compile = False
    loader_workers: spec_fields.LoaderWorkers = 0
    backend: spec_fields.Backend = "auto"
    workers_per_device: spec_fields.WorkersPerDevice = 1
    cross_device: spec_fields.CrossDevice = "auto"
    memory_limit_mib: spec_fields.MemoryLimitMib = 0
    microbatches: spec_fields.Microbatches = 0

    checkpoint_minutes: spec_fields.CheckpointMinutes = 10.0
    checkpoint_steps: spec_fields.CheckpointSteps = 0
    checkpoint_epochs: spec_fields.CheckpointEpochs = 0
    checkpoint_best: spec_fields.CheckpointBest = ""
    keep_checkpoints: spec_fields.KeepCheckpoints = 3
    shared_folder: spec_fields.SharedFolder = ""

    on_nan: spec_fields.OnNan = "continue"
    on_oom: spec_fields.OnOom = "stop"
    gradient_norm: spec_fields.GradientNorm = False
    deterministic: spec_fields.Deterministic = False
    max_restarts: spec_fields.MaxRestarts = 0
    min_machines: spec_fields.MinMachines = 0
    hang_minutes: spec_fields.HangMinutes = 2.0
    stop_seconds: spec_fields.StopSeconds = 30.0
    orphan_seconds: spec_fields.OrphanSeconds = 30.0
    on_disk_full: spec_fields.OnDiskFull = "pause"

    queue: spec_fields.Queue = "gpus"
    keep_awake: spec_fields.KeepAwake = True
    cold_start: spec_fields.ColdStart = False

    tensorboard: spec_fields.TensorBoard = False
    tensorboard_folder: spec_fields.TensorBoardFolder = ""

    @property
    def best_metric(self) -> str:
        """The metric whose best value has a checkpoint, perhaps with its direction; may be empty.
        Early stopping keeps the best checkpoint too."""
        return self.checkpoint_best or self.early_stopping

    @property
    def is_script(self) -> bool:
        """Whether this is the run of a command, and not of a recipe."""
        return bool(self.command)

    @property
    def is_imported(self) -> bool:
        """Whether this run was made of files of another program, and never trained here."""
        return bool(self.imported_from)

    @property
    def slots(self) -> tuple[str, ...]:
        """The devices by rank: each device is repeated for each of its workers."""
        workers = min(max(1, self.workers_per_device), spec_fields.MOST_WORKERS_PER_DEVICE)
        return tuple(device for device in self.devices for _ in range(workers))


def batch_arithmetic(batch_size: int, replicas: int, accumulation: int = 1) -> str:
    """Return how replicas share a global batch: `128 = 64 per replica × 2 replicas`."""
    parts = replicas * accumulation
    if parts < 1 or batch_size < 1:
        return ""
    share, rest = divmod(batch_size, parts)
    steps = f" × {accumulation} accumulation steps" if accumulation > 1 else ""
    sharing = f"{replicas} replica{'s' if replicas > 1 else ''}{steps}"
    if rest:
        sizes = f"{rest} × {share + 1} + {parts - rest} × {share}"
        return f"{batch_size} = {sizes} over {sharing}"
    return f"{batch_size} = {share} per replica × {sharing}"


FIELDS: Mapping[str, FieldInfo] = fields_of(RunSpec)
"""Every field of `RunSpec` that the form and the command line can set, by name, in order."""
