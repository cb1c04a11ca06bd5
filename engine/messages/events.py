"""The events of a run, from its workers and its supervisor, as one closed union."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from engine.processes.machine import Machine


class Points(msgspec.Struct, frozen=True, omit_defaults=True):
    """New points of one series. `steps` ascend; NaN and infinities are allowed as values."""

    series: str
    """Such as `train/loss`, `validation/accuracy`, `device/<id>/memory` (bytes)."""

    steps: list[int]
    """Optimizer steps done when each value was taken, counted from the start of training."""

    values: list[float]
    times: list[float] = []
    """When each value was taken (seconds since the epoch). Empty: evenly from the begin to the end
    of the batch."""


class WorkerReady(msgspec.Struct, frozen=True, tag="worker_ready"):
    """A worker has imported its framework and built its model."""

    rank: int
    devices: tuple[str, ...]
    versions: dict[str, str]
    """Version of each package that affects the results, such as {"torch": "2.13.0"}."""


class TrainingStarted(msgspec.Struct, frozen=True, tag="training_started"):
    """Rank 0 begins after `step` steps: 0, or the steps of the checkpoint that it resumes from."""

    step: int
    steps_per_epoch: int
    epochs: int
    """0: the length of the run is not counted in epochs."""

    replicas: int
    parameters: int
    """Trainable parameters of the model. Of a script, this and the other numbers are 0 if they are
    not known; a later event of an attempt tells what became known."""

    total_steps: int = 0
    """Steps of the whole run, with those before `step`; 0: not known, or an older store."""

    metric_directions: dict[str, str] = {}
    """`min` or `max` for each metric whose direction the recipe or the user chose."""

    validates: bool = True
    """False: the recipe has no validation data. True for a script, whose curves show it."""


class Metrics(msgspec.Struct, frozen=True, tag="metrics"):
    """A batch of points taken between `begin` and `end` (seconds since the epoch)."""

    begin: float
    end: float
    points: list[Points]


class Progress(msgspec.Struct, frozen=True, tag="progress"):
    """The progress of rank 0. It changes the status, and is not stored as an event."""

    epoch: int
    """The epoch being trained, from 1."""

    step: int
    samples_per_second: float
    step_seconds: float
    seconds_left: float
    """At the present speed, without pauses and checkpoints."""


class EpochEnded(msgspec.Struct, frozen=True, tag="epoch_ended"):
    """An epoch's steps and its validation are done."""

    epoch: int
    step: int
    metrics: dict[str, float]
    """Such as {"validation/loss": 0.12, "validation/accuracy": 0.97}."""


class ImageLogged(msgspec.Struct, frozen=True, tag="image_logged"):
    """A script has logged a picture."""

    series: str
    step: int
    file: str
    """Relative to the run folder; in its folder `media`."""

    width: int
    height: int
    caption: str = ""


class HistogramLogged(msgspec.Struct, frozen=True, tag="histogram_logged"):
    """A script has logged a distribution."""

    series: str
    step: int
    edges: list[float]
    """The limits of the bins, ascending: one more than `counts`."""

    counts: list[float]


class CheckpointSaved(msgspec.Struct, frozen=True, tag="checkpoint_saved"):
    """A checkpoint is complete under its final name."""

    path: str
    step: int
    epoch: int
    bytes: int
    seconds: float


class CheckpointFailed(msgspec.Struct, frozen=True, tag="checkpoint_failed"):
    """A checkpoint could not be written, and was removed; the training can go on."""

    step: int
    text: str
    """A sentence: which checkpoint, why it failed, what to do."""


class CacheEmptied(msgspec.Struct, frozen=True, tag="cache_emptied"):
    """A worker released unused memory of one device."""

    rank: int
    device: str
    freed_bytes: int


class Paused(msgspec.Struct, frozen=True, tag="paused"):
    """All ranks are paused after step `step`."""

    step: int
    freed_devices: bool = False
    """Model and optimizer are in the host's memory until the run resumes."""


class Resumed(msgspec.Struct, frozen=True, tag="resumed"):
    """All ranks continue after step `step`."""

    step: int


class TrainingEnded(msgspec.Struct, frozen=True, tag="training_ended"):
    """Rank 0 left its training loop without an error; the processes are about to exit."""

    step: int
    completed: bool
    """True: all epochs or steps are done, or the recipe ended it. False: stopped by command."""

    reason: str = ""
    """Why the recipe ended the training before that, in a sentence; empty: it did not."""


class Notice(msgspec.Struct, frozen=True, tag="notice"):
    """One sentence that the user should know; it does not change the state of the run."""

    text: str
    rank: int = -1
    """The rank that reports it; -1: the supervisor."""


class Alarm(msgspec.Struct, frozen=True, tag="alarm"):
    """An alarm of a device of the run begins or ends; it does not change the run's state."""

    device: str
    """`cpu`, or a GPU's full UUID."""

    kind: str
    """One of `engine.telemetry.alarms.AlarmKind`."""

    text: str
    """A sentence: what, where, what to do."""

    raised: bool
    """False: the alarm is over."""


class Trouble(msgspec.Struct, frozen=True, tag="trouble"):
    """A trouble that needs the user begins or ends; it does not change the run's state."""

    kind: str
    """`hang`: no steps are done. `disk`: the run folder cannot be written."""

    text: str
    """Sentences: what, where, what to do."""

    raised: bool
    """False: the trouble is over."""


class Shrunk(msgspec.Struct, frozen=True, tag="shrunk"):
    """A device had no memory left, and all ranks go on with smaller parts of each batch."""

    rank: int
    step: int
    """The optimizer step in which it happened, from 1."""

    text: str
    """Sentences: which rank, where, how all ranks go on."""

    accumulation: int
    """The accumulation steps from now on."""

    asked: int
    """Those that the spec asks for. With the next two, it tells whether later settings of the run
    still are those that were too large."""

    batch_size: int
    replicas: int
    restarts: bool = False
    """The state was not intact: the next attempt begins at the newest checkpoint."""


class WorkerFailed(msgspec.Struct, frozen=True, tag="worker_failed"):
    """A worker's failure report: the exception that ends it."""

    rank: int
    message: str
    """One sentence: type and text of the exception."""

    where: str
    """File and line in the recipe where it happened, or empty."""

    traceback: str
    lost_peer: bool
    """The exception only says that the connection to another rank was lost."""

    details: str = ""
    """What helps beside the message, over several lines: the rest of the exception's text, its
    notes and causes."""

    exit_code: int = 1
    """With which the worker leaves after this report; -n for the signal n."""

    shrunk: Shrunk | None = None
    """It was out of memory, and the next attempt is to go on like this."""

    kernel_fault: bool = False
    """A kernel of its GPU has failed."""


class AttemptStarted(msgspec.Struct, frozen=True, tag="attempt_started"):
    """A supervisor begins an attempt: the first event of every attempt."""

    attempt: int
    supervisor_pid: int
    supervisor_created: float
    """From `engine.processes.process.start_time`; with the pid it identifies the process."""

    machine: Machine = Machine()
    """Where the supervisor runs; the pid is one of that machine."""


class RecipeVersion(StrEnum):
    """With which recipe a run continues, if the file has changed since the run's copy of it."""

    AS_IT_WAS = "as-it-was"
    """The copy."""

    AS_IT_IS_NOW = "as-it-is-now"
    """The changed file, which replaces the copy."""


class RecipeChosen(msgspec.Struct, frozen=True, tag="recipe_chosen"):
    """The recipe had changed since the run's copy of it; the user chose which one to go on with."""

    version: RecipeVersion
    changes: str
    """In what both differ, such as `mine.py: 3 lines changed`."""


class Queued(msgspec.Struct, frozen=True, tag="queued"):
    """The run waits until no other run uses its devices; sent again when its place changes."""

    ahead: tuple[str, ...]
    """Ids of the runs that it waits for; empty: its turn has come."""

    reason: str
    """A sentence: behind which run, on which devices, at which place in the queue."""


class WorkerStarted(msgspec.Struct, frozen=True, tag="worker_started"):
    """The process of a rank was started; it has not imported its framework yet."""

    rank: int
    pid: int
    devices: tuple[str, ...]
    created: float = 0.0
    """From `engine.processes.process.start_time`; 0 in an older store."""


class CommandReceived(msgspec.Struct, frozen=True, tag="command_received"):
    """The supervisor accepted a command."""

    command: str


class CommandRefused(msgspec.Struct, frozen=True, tag="command_refused"):
    """The supervisor refused a command; `reason` is a sentence."""

    command: str
    reason: str


class StopStage(msgspec.Struct, frozen=True, tag="stop_stage"):
    """The supervisor enters a stage of the stop escalation: `ask`, `terminate` or `kill`."""

    stage: str


class Rewound(msgspec.Struct, frozen=True, tag="rewound"):
    """The run continues from a checkpoint: all points after `step` were removed from the curves."""

    step: int
    checkpoint: str
    """Name of its folder; empty: there is none, and the training starts at step 0."""

    epoch: int = 0
    """Epochs done at the checkpoint. Missing in an older store, as are the `metrics`."""

    metrics: dict[str, float] = {}
    own_file: str = ""
    """The file of a script itself from which it goes on; then `checkpoint` is empty."""


class Failure(msgspec.Struct, frozen=True):
    """The root cause of a failure, for the user."""

    rank: int
    """-1: the cause lies outside the workers."""

    device: str
    exit_code: int
    signal: str
    """Such as `SIGKILL`, or empty."""

    message: str
    where: str
    log_tail: str
    """The last lines of the rank's log."""

    details: str = ""
    """From `WorkerFailed.details`."""


class Restarting(msgspec.Struct, frozen=True, tag="restarting"):
    """An attempt failed, and the supervisor starts the next one automatically."""

    failure: Failure
    number: int
    """Number of this automatic restart, from 1 to at most `most`."""

    most: int


class RunEnded(msgspec.Struct, frozen=True, tag="run_ended"):
    """The terminal event, one per supervisor, after the workers ended. `reason` is a sentence."""

    state: str
    """`finished`, `stopped` or `failed`."""

    reason: str
    failure: Failure | None = None
    early: bool = False
    """A finished run has not done all its epochs or steps, as its settings or its recipe say."""


WorkerEvent = (
    WorkerReady
    | TrainingStarted
    | Metrics
    | Progress
    | EpochEnded
    | ImageLogged
    | HistogramLogged
    | CheckpointSaved
    | CheckpointFailed
    | CacheEmptied
    | Paused
    | Resumed
    | TrainingEnded
    | Notice
    | Shrunk
    | WorkerFailed
)
"""The events that workers may send; only the supervisor makes the others."""

Event = (
    WorkerEvent
    | Alarm
    | Trouble
    | AttemptStarted
    | RecipeChosen
    | Queued
    | WorkerStarted
    | CommandReceived
    | CommandRefused
    | StopStage
    | Rewound
    | Restarting
    | RunEnded
)
"""All events; a `match` on it ends in `assert_never`."""
