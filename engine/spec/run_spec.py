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
    """Name of a built-in recipe, or the absolute path of a recipe file."""

    strategy: str
    """Full name of a strategy, such as `torch/ddp`."""

    devices: tuple[str, ...]
    """One entry per device: `cpu:0`, `cpu:1`, ... (logical CPU devices) or full GPU UUIDs."""

    settings: dict[str, Setting] = {}
    """Values for keyword arguments of the recipe's functions."""

    name: str = ""
    """The user's name for the run; empty: the name of the recipe."""

    batch_size: spec_fields.BatchSize = 128
    epochs: spec_fields.Epochs = 5
    learning_rate: spec_fields.LearningRate = 1e-3
    seed: spec_fields.Seed = 0

    optimizer: spec_fields.Optimizer = "recipe"
    momentum: spec_fields.Momentum = 0.0
    weight_decay: spec_fields.WeightDecay = 0.0
    schedule: spec_fields.Schedule = "constant"
    warmup_steps: spec_fields.WarmupSteps = 0
    accumulation: spec_fields.Accumulation = 1
    clip_norm: spec_fields.ClipNorm = 0.0

    precision: spec_fields.Precision = "fp32"
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

    on_nan: spec_fields.OnNan = "continue"
    gradient_norm: spec_fields.GradientNorm = False
    deterministic: spec_fields.Deterministic = False
    max_restarts: spec_fields.MaxRestarts = 0
    hang_minutes: spec_fields.HangMinutes = 2.0
    stop_seconds: spec_fields.StopSeconds = 30.0
    orphan_seconds: spec_fields.OrphanSeconds = 30.0
    on_disk_full: spec_fields.OnDiskFull = "pause"

    queue: spec_fields.Queue = "gpus"
    keep_awake: spec_fields.KeepAwake = True
    cold_start: spec_fields.ColdStart = False

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
