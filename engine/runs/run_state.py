"""The state machine of a run, and the fold from its events to its status."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import assert_never

import msgspec

from engine.messages.events import (
    Alarm,
    AttemptStarted,
    CacheEmptied,
    CheckpointFailed,
    CheckpointSaved,
    CommandReceived,
    CommandRefused,
    EpochEnded,
    Event,
    HistogramLogged,
    ImageLogged,
    Metrics,
    Notice,
    Paused,
    Progress,
    Queued,
    RecipeChosen,
    Restarting,
    Resumed,
    Rewound,
    RunEnded,
    Shrunk,
    StopStage,
    TrainingEnded,
    TrainingStarted,
    Trouble,
    WorkerFailed,
    WorkerReady,
    WorkerStarted,
)
from engine.processes.machine import Machine
from engine.runs.checkpoints.checkpoint_files import FOLDER
from engine.spec.run_spec import RunSpec


class RunState(StrEnum):
    """The state machine of a run.

    ```
    starting <-> queued --> stopped           (other runs use its devices)
    starting -> running <-> paused
        |          |           |
        +----------+-----------+--> stopping --> stopped | finished | failed
        +----------+-----------+-------------------------> finished | failed
    any active state, when the supervisor has ended --> interrupted
    any active state, seen from another machine ------> on another machine
    stopped | failed | interrupted -- resume --> starting   (a new attempt)
    ```

    The last two states are never stored: a reader finds them out from the process of the
    supervisor.
    """

    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    STOPPING = "stopping"
    FINISHED = "finished"
    STOPPED = "stopped"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    ELSEWHERE = "on another machine"

    @property
    def is_over(self) -> bool:
        """Whether no process of the run is left."""
        return self in _OVER

    @property
    def can_resume(self) -> bool:
        """Whether a run in this state may resume with the settings that it has."""
        return self in _OVER and self is not RunState.FINISHED


TRAINING_LOSS = "train/loss"
STEP_SECONDS, THROUGHPUT = "train/step_seconds", "train/samples_per_second"
"""Mean seconds of a step, and samples of all replicas per second; no validation is part of them."""

ENERGY = "device/energy"
"""The series of `RunStatus.energy`."""

_NOT_STARTED = frozenset({RunState.QUEUED, RunState.STARTING})
_OVER = frozenset({RunState.FINISHED, RunState.STOPPED, RunState.FAILED, RunState.INTERRUPTED})


class RunStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The current state of a run, folded from its events and stored beside them."""

    state: RunState = RunState.STARTING
    reason: str = ""
    attempt: int = 0
    supervisor_pid: int = 0
    supervisor_created: float = 0.0
    machine: Machine = Machine()
    """Where the supervisor runs; empty in an old store."""

    worker_pids: tuple[int, ...] = ()
    """By rank."""

    workers_created: tuple[float, ...] = ()
    """The start time of each, from `engine.processes.process.start_time`."""

    recorded: dict[int, int] = {}
    """How many events of each rank of this attempt are in the store."""

    workers_ready: int = 0
    replicas: int = 0
    parameters: int = 0
    started: float = 0.0
    """When the first attempt began, after the queue (seconds since the epoch)."""

    attempt_started: float = 0.0
    """When the newest attempt began, after the queue; 0 in an old store."""

    seconds_before: float = 0.0
    """The duration of all earlier attempts."""

    updated: float = 0.0
    """When the last event arrived (seconds since the epoch)."""

    epoch: int = 0
    """The current epoch, from 1; 0 before the first step."""

    epochs: int = 0
    step: int = 0
    steps_per_epoch: int = 0
    planned_steps: int = 0
    """From `TrainingStarted.total_steps`."""

    samples_per_second: float = 0.0
    step_seconds: float = 0.0
    seconds_left: float = 0.0
    energy: float = 0.0
    """Watt-hours that its GPUs have used while it trained, in all attempts; 0: not known."""

    metrics: dict[str, float] = {}
    """Last value of every validation metric and of `train/loss`."""

    not_finite_since: int = -1
    """The first of the newest steps whose training loss is NaN or infinite; -1: the newest is
    finite. Not set in an old store."""

    metric_directions: dict[str, str] = {}
    """From `TrainingStarted.metric_directions`."""

    checkpoint: str = ""
    """Folder of the newest checkpoint; the path may be relative to the run's folder."""

    checkpoint_step: int = -1
    freed_devices: bool = False
    """While paused: model and optimizer are in the host's memory."""

    ended_early: bool = False
    """From `RunEnded.early`: the run may go on."""

    failure_rank: int = -1
    shrunk: Shrunk | None = None
    """The last time that a device was out of memory and the run went on with smaller parts."""

    troubles: dict[str, str] = {}
    """Current problems in sentences, by kind of `Trouble`; `checkpoint`: the last save failed."""

    @property
    def total_steps(self) -> int:
        """Steps of the whole run; 0 until rank 0 has counted its data."""
        return self.planned_steps or self.steps_per_epoch * self.epochs

    def seconds(self, now: float) -> float:
        """Return the duration of the run until `now` (seconds since the epoch).

        It includes pauses, but not the time in the queue and between attempts.
        """
        begin = self.attempt_started or self.started
        return self.seconds_before + max(0.0, now - begin) if begin else 0.0


def accumulation_in_force(spec: RunSpec, replicas: int, shrunk: Shrunk | None) -> int:
    """Return the accumulation steps of the next attempt: those of `shrunk`, from the status, while
    the spec asks for what was too large then, and otherwise the spec's."""
    if shrunk is None:
        return spec.accumulation
    was_too_large = (shrunk.asked, shrunk.batch_size, shrunk.replicas)
    if was_too_large != (spec.accumulation, spec.batch_size, replicas):
        return spec.accumulation
    return shrunk.accumulation


def fold(status: RunStatus, event: Event, time: float) -> RunStatus:
    """Return `status` after `event`, which arrived at `time` (seconds since the epoch)."""
    change = msgspec.structs.replace
    before, status = status, change(status, updated=time)
    match event:
        case AttemptStarted():
            return change(
                status,
                state=RunState.STARTING,
                reason="",
                attempt=event.attempt,
                supervisor_pid=event.supervisor_pid,
                supervisor_created=event.supervisor_created,
                machine=event.machine,
                worker_pids=(),
                workers_created=(),
                recorded={},
                workers_ready=0,
                started=status.started or time,
                attempt_started=time,
                seconds_before=before.seconds(before.updated),
                freed_devices=False,
                ended_early=False,
                failure_rank=-1,
                troubles={},
            )
        case Queued():
            return change(
                status,
                state=RunState.QUEUED if event.ahead else RunState.STARTING,
                reason=event.reason,
                started=status.started if event.ahead or status.attempt > 1 else time,
                attempt_started=status.attempt_started if event.ahead else time,
            )
        case WorkerStarted():
            return change(
                status,
                worker_pids=(*status.worker_pids, event.pid),
                workers_created=(*status.workers_created, event.created),
            )
        case WorkerReady():
            return change(status, workers_ready=status.workers_ready + 1)
        case TrainingStarted():
            return change(
                status,
                state=RunState.RUNNING if status.state in _NOT_STARTED else status.state,
                step=event.step,
                steps_per_epoch=event.steps_per_epoch,
                epochs=event.epochs,
                planned_steps=event.total_steps,
                metric_directions=event.metric_directions,
                replicas=event.replicas,
                parameters=event.parameters,
            )
        case Metrics():
            return change(
                status,
                metrics=status.metrics | _newest_metrics(event),
                not_finite_since=_not_finite_since(status.not_finite_since, event),
                energy=_energy(status.energy, event),
            )
        case Progress():
            return change(
                status,
                epoch=event.epoch,
                step=event.step,
                samples_per_second=event.samples_per_second,
                step_seconds=event.step_seconds,
                seconds_left=event.seconds_left,
            )
        case EpochEnded():
            metrics = status.metrics | event.metrics
            return change(status, epoch=event.epoch, step=event.step, metrics=metrics)
        case CheckpointSaved():
            troubles = _other_troubles(status, "checkpoint")
            path, step = event.path, event.step
            return change(status, checkpoint=path, checkpoint_step=step, troubles=troubles)
        case CheckpointFailed():
            return change(status, troubles=status.troubles | {"checkpoint": event.text})
        case Paused():
            return change(status, state=RunState.PAUSED, freed_devices=event.freed_devices)
        case Resumed():
            return change(status, state=RunState.RUNNING, freed_devices=False)
        case StopStage():
            return change(status, state=RunState.STOPPING)
        case TrainingEnded():
            return change(status, step=event.step, seconds_left=0.0)
        case Rewound():
            since = status.not_finite_since
            return change(
                status,
                not_finite_since=-1 if since > event.step else since,
                step=event.step,
                epoch=event.epoch,
                seconds_left=0.0,
                metrics=event.metrics,
                checkpoint=f"{FOLDER}/{event.checkpoint}" if event.checkpoint else "",
                checkpoint_step=event.step if event.checkpoint else -1,
            )
        case RunEnded():
            return change(
                status,
                state=RunState(event.state),
                reason=event.reason,
                attempt_started=time if status.state is RunState.QUEUED else status.attempt_started,
                seconds_left=0.0,
                workers_ready=0,
                freed_devices=False,
                ended_early=event.early,
                failure_rank=event.failure.rank if event.failure else -1,
                troubles={},
            )
        case Shrunk():
            return change(status, shrunk=event)
        case Trouble():
            added = {event.kind: event.text} if event.raised else {}
            return change(status, troubles=_other_troubles(status, event.kind) | added)
        case (
            CacheEmptied()
            | ImageLogged()
            | HistogramLogged()
            | Notice()
            | Alarm()
            | WorkerFailed()
            | Restarting()
            | CommandReceived()
            | CommandRefused()
            | RecipeChosen()
        ):
            return status
        case _:
            assert_never(event)


def _other_troubles(status: RunStatus, kind: str) -> dict[str, str]:
    return {other: text for other, text in status.troubles.items() if other != kind}


def _newest_metrics(event: Metrics) -> dict[str, float]:
    """Return `train/loss`, so that a run shows a metric before its first validation, and what a
    script has logged under names of its own."""
    return {
        points.series: points.values[-1]
        for points in event.points
        if points.values
        and (points.series == TRAINING_LOSS or not points.series.startswith(_OTHER_SERIES))
    }


_OTHER_SERIES = ("train/", "device/", "rank/")
"""Series that are no results: their last values do not say how good the model is."""


def _energy(before: float, event: Metrics) -> float:
    found = [points.values[-1] for points in event.points if points.series == ENERGY]
    return found[-1] if found else before


def _not_finite_since(before: int, event: Metrics) -> int:
    """Return `RunStatus.not_finite_since` after `event`, if it was `before`."""
    since = before
    for points in event.points:
        if points.series == TRAINING_LOSS and points.values:
            if math.isfinite(points.values[-1]):
                since = -1
                continue
            for step, value in zip(points.steps, points.values, strict=False):
                if math.isfinite(value):
                    since = -1
                elif since < 0:
                    since = step
    return since


def not_finite_sentence(status: RunStatus) -> str:
    """Return from which step on the loss is not finite, in a sentence; empty: it is finite."""
    if status.not_finite_since < 0:
        return ""
    return f"The loss is not a finite number since step {status.not_finite_since}."
