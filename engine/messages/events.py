"""What happens in a run: one closed union of events, from the workers and from the supervisor."""

from __future__ import annotations

import msgspec


class Points(msgspec.Struct, frozen=True):
    """New points of one series. `steps` ascend; NaN and infinities are values like others."""

    series: str
    """Such as `train/loss`, `validation/accuracy`, `device/<id>/memory` (bytes)."""

    steps: list[int]
    """Optimizer steps done when the value was taken, counted from the start of training."""

    values: list[float]


class WorkerReady(msgspec.Struct, frozen=True, tag="worker_ready"):
    """A worker has imported its framework and built its model."""

    rank: int
    devices: tuple[str, ...]
    versions: dict[str, str]
    """Version of each package that decides what is computed, such as {"torch": "2.13.0"}."""


class TrainingStarted(msgspec.Struct, frozen=True, tag="training_started"):
    """Rank 0 begins with step `step` (0, or the step of the checkpoint it resumed from)."""

    step: int
    steps_per_epoch: int
    epochs: int
    replicas: int
    parameters: int
    """Trainable parameters of the model."""

    total_steps: int = 0
    """Steps of the whole run, those before `step` with it; 0 in an older store."""

    metric_directions: dict[str, str] = {}
    """`min` or `max` by metric, where the recipe or the user overrides the rule of
    `engine.spec.metric_direction`."""


class Metrics(msgspec.Struct, frozen=True, tag="metrics"):
    """A batch of points taken between `begin` and `end` (seconds since the epoch)."""

    begin: float
    end: float
    points: list[Points]


class Progress(msgspec.Struct, frozen=True, tag="progress"):
    """Where rank 0 stands; only the newest one matters, so it is folded and not kept."""

    epoch: int
    """The epoch being trained, from 1."""

    step: int
    samples_per_second: float
    step_seconds: float
    seconds_left: float
    """At the speed so far, without pauses and checkpoints."""


class EpochEnded(msgspec.Struct, frozen=True, tag="epoch_ended"):
    """An epoch's steps and its validation are done."""

    epoch: int
    step: int
    metrics: dict[str, float]
    """Such as {"validation/loss": 0.12, "validation/accuracy": 0.97}."""


class CheckpointSaved(msgspec.Struct, frozen=True, tag="checkpoint_saved"):
    """A checkpoint is complete under its final name."""

    path: str
    step: int
    epoch: int
    bytes: int
    seconds: float


class CheckpointFailed(msgspec.Struct, frozen=True, tag="checkpoint_failed"):
    """A checkpoint could not be written, and nothing is left of it; the training need not end."""

    step: int
    text: str
    """A sentence: which checkpoint, why not, what to do."""


class CacheEmptied(msgspec.Struct, frozen=True, tag="cache_emptied"):
    """A worker gave unused memory of one device back."""

    rank: int
    device: str
    freed_bytes: int


class Paused(msgspec.Struct, frozen=True, tag="paused"):
    """All ranks hold after step `step`."""

    step: int
    freed_devices: bool = False
    """Model and optimizer lie in the host's memory until the run goes on."""


class Resumed(msgspec.Struct, frozen=True, tag="resumed"):
    """All ranks go on after step `step`."""

    step: int


class TrainingEnded(msgspec.Struct, frozen=True, tag="training_ended"):
    """Rank 0 left its loop in good order; the processes are about to exit."""

    step: int
    completed: bool
    """All epochs are done (else: stopped by command)."""


class Notice(msgspec.Struct, frozen=True, tag="notice"):
    """Something a person should know, in one sentence, that changes no state."""

    text: str
    rank: int = -1
    """-1: said by the supervisor."""


class Alarm(msgspec.Struct, frozen=True, tag="alarm"):
    """Something is wrong with a device of the run, or is not any more; it changes no state."""

    device: str
    """`cpu`, or a GPU's full UUID."""

    kind: str
    """One of `engine.telemetry.alarms.AlarmKind`."""

    text: str
    """A sentence: what, where, what to do."""

    raised: bool
    """False: the alarm is over."""


class Trouble(msgspec.Struct, frozen=True, tag="trouble"):
    """Somebody should look after the run, or need not any more; it changes no state by itself."""

    kind: str
    """`hang`: no step comes. `disk`: the run folder cannot be written."""

    text: str
    """Sentences: what, where, what to do."""

    raised: bool
    """False: the trouble is over."""


class WorkerFailed(msgspec.Struct, frozen=True, tag="worker_failed"):
    """A worker's own account of the exception that ends it."""

    rank: int
    message: str
    """One sentence: type and text of the exception."""

    where: str
    """File and line in the recipe where it happened, or empty."""

    traceback: str
    lost_peer: bool
    """The exception only says that another rank went away."""


class AttemptStarted(msgspec.Struct, frozen=True, tag="attempt_started"):
    """A supervisor has taken the run: the first event of every attempt."""

    attempt: int
    supervisor_pid: int
    supervisor_created: float
    """As `engine.system.process.created` tells it: pid and this name the process."""


class Queued(msgspec.Struct, frozen=True, tag="queued"):
    """The run waits until no other run uses its devices; said again whenever its place changes."""

    ahead: tuple[str, ...]
    """Ids of the runs that it waits for; none: its turn has come."""

    reason: str
    """A sentence: behind which run, on which devices, at which place in line."""


class WorkerStarted(msgspec.Struct, frozen=True, tag="worker_started"):
    """The process of a rank exists; it has yet to import its framework."""

    rank: int
    pid: int
    devices: tuple[str, ...]


class CommandReceived(msgspec.Struct, frozen=True, tag="command_received"):
    """The supervisor took a command."""

    command: str


class CommandRefused(msgspec.Struct, frozen=True, tag="command_refused"):
    """A command that could not be carried out, and why."""

    command: str
    reason: str


class StopStage(msgspec.Struct, frozen=True, tag="stop_stage"):
    """A rung of the ladder by which a pool is ended: `ask`, `terminate`, `kill`."""

    stage: str


class Rewound(msgspec.Struct, frozen=True, tag="rewound"):
    """The run continues from a checkpoint: every point after `step` was taken out of the curves."""

    step: int
    checkpoint: str
    """Name of its folder; empty: there is none, and the run begins anew."""

    epoch: int = 0
    """Epochs done there. An older store knows neither these nor `metrics`."""

    metrics: dict[str, float] = {}


class Failure(msgspec.Struct, frozen=True):
    """The first thing that went wrong, for a person."""

    rank: int
    """-1: no worker is to blame."""

    device: str
    exit_code: int
    signal: str
    """Such as `SIGKILL`, or empty."""

    message: str
    where: str
    log_tail: str
    """The last lines of the rank's log."""


class Restarting(msgspec.Struct, frozen=True, tag="restarting"):
    """An attempt failed, and its supervisor begins the next one by itself."""

    failure: Failure
    number: int
    """Which automatic restart this is, from 1, of at most `most`."""

    most: int


class RunEnded(msgspec.Struct, frozen=True, tag="run_ended"):
    """The terminal event, one per supervisor, after the last worker. `reason` is a sentence."""

    state: str
    """`finished`, `stopped` or `failed`."""

    reason: str
    failure: Failure | None = None


WorkerEvent = (
    WorkerReady
    | TrainingStarted
    | Metrics
    | Progress
    | EpochEnded
    | CheckpointSaved
    | CheckpointFailed
    | CacheEmptied
    | Paused
    | Resumed
    | TrainingEnded
    | Notice
    | WorkerFailed
)
"""What workers say; the rest is for the supervisor alone to say."""

Event = (
    WorkerEvent
    | Alarm
    | Trouble
    | AttemptStarted
    | Queued
    | WorkerStarted
    | CommandReceived
    | CommandRefused
    | StopStage
    | Rewound
    | Restarting
    | RunEnded
)
"""Every event there is; `match` on it ends in `assert_never`."""
