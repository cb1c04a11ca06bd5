"""Every event of a run as a sentence for the log and the table of events."""

from __future__ import annotations

import re
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, assert_never

from engine.events import (
    Alarm,
    AttemptStarted,
    CacheEmptied,
    CheckpointFailed,
    CheckpointSaved,
    CommandReceived,
    CommandRefused,
    EpochEnded,
    Event,
    Metrics,
    Notice,
    Paused,
    Progress,
    Queued,
    Restarting,
    Resumed,
    Rewound,
    RunEnded,
    StopStage,
    TrainingEnded,
    TrainingStarted,
    Trouble,
    WorkerFailed,
    WorkerReady,
    WorkerStarted,
)
from engine.telemetry.alarms import AlarmKind
from gui import wording

FROM_SUPERVISOR = -1


class Level(StrEnum):
    """How much an event matters."""

    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"


class EventText(NamedTuple):
    """An event for the eye."""

    level: Level
    text: str
    rank: int = FROM_SUPERVISOR


_STAGES = {
    "ask": "Stop: the workers are asked to save and leave.",
    "terminate": "Stop: the workers are told to terminate.",
    "kill": "Stop: the workers are killed.",
}
_ERRORS = [kind.value for kind in AlarmKind if kind.severity == "error"]
"""Alarms that say that work is lost, or may be."""

_END_LEVELS = {"finished": Level.INFO, "stopped": Level.WARN}


def event_text(event: Event) -> EventText:
    """The level, the sentence and the rank (-1: the supervisor) of `event`."""
    match event:
        case WorkerReady(rank, devices, versions):
            packages = ", ".join(f"{name} {version}" for name, version in versions.items())
            return _info(f"Ready on {', '.join(devices)} with {packages}.", rank)
        case TrainingStarted(step, per_epoch, epochs, replicas, parameters):
            return _info(
                f"Training starts at step {step}: {epochs} epochs of {per_epoch} steps, "
                f"{replicas} replica{'s' * (replicas != 1)}, {parameters:,} parameters."
            )
        case Metrics(points=points):
            return _info(f"New points of {', '.join(each.series for each in points)}.")
        case Progress(epoch, step, speed):
            return _info(f"Epoch {epoch}, step {step}, {speed:,.0f} samples/s.")
        case EpochEnded(epoch, step, metrics):
            values = "  ".join(
                f"{name} {wording.metric(name, value)}" for name, value in metrics.items()
            )
            return _info(f"Epoch {epoch} done at step {step}.  {values}")
        case CheckpointSaved(path, step, epoch, bytes, seconds):
            return _info(
                f"Checkpoint of step {step} (epoch {epoch}) saved as {Path(path).name} "
                f"({wording.size(bytes)}, {seconds:.2f} s)."
            )
        case CheckpointFailed(text=text):
            return EventText(Level.ERROR, text)
        case CacheEmptied(rank, device, freed):
            return _info(f"Cache of {device} emptied: {wording.size(freed)} given back.", rank)
        case Paused(step, freed_devices):
            where = "; model and optimizer lie in the host's memory" if freed_devices else ""
            return _info(f"Paused after step {step}{where}.")
        case Resumed(step):
            return _info(f"Goes on after step {step}.")
        case TrainingEnded(step, completed):
            how = "all epochs done" if completed else "stopped by command"
            return _info(f"Training ends at step {step}: {how}.")
        case Notice(text, rank):
            return EventText(Level.WARN, text, rank)
        case Alarm(kind=kind, text=text, raised=raised):
            level = Level.ERROR if kind in _ERRORS else Level.WARN
            return EventText(level if raised else Level.INFO, text)
        case Trouble(text=text, raised=raised):
            return EventText(Level.ERROR if raised else Level.INFO, text)
        case WorkerFailed(rank, message, where, _, lost_peer):
            place = f" in {where}" if where else ""
            level = Level.WARN if lost_peer else Level.ERROR
            return EventText(level, f"Failed{place}: {message}", rank)
        case AttemptStarted(attempt, pid):
            return _info(f"Attempt {attempt} starts under supervisor process {pid}.")
        case Queued(_, reason):
            return _info(reason or "Its turn in the queue has come.")
        case WorkerStarted(rank, pid, devices):
            return _info(f"Worker process {pid} started for {', '.join(devices)}.", rank)
        case CommandReceived(command):
            return _info(f"Command received: {_words(command)}.")
        case CommandRefused(command, reason):
            return EventText(Level.WARN, f"Command refused: {_words(command)}. {reason}")
        case StopStage(stage):
            return EventText(Level.WARN, _STAGES.get(stage, f"Stop: {stage}."))
        case Rewound(step, checkpoint):
            if not checkpoint:
                return _info("Begins anew: there is no checkpoint to go on from.")
            return _info(f"Goes on from checkpoint {checkpoint}, after step {step}.")
        case Restarting(failure, number, most):
            return EventText(
                Level.WARN, f"Restart {number} of {most}: {failure.message}", failure.rank
            )
        case RunEnded(state, reason, failure):
            rank = failure.rank if failure else FROM_SUPERVISOR
            level = _END_LEVELS.get(state, Level.ERROR)
            return EventText(level, reason or f"Run {state}.", rank)
        case _:
            assert_never(event)


def event_name(event: Event) -> str:
    """What kind of event it is, such as `Checkpoint saved`."""
    return str(event.__struct_config__.tag).replace("_", " ").capitalize()


def _words(command: str) -> str:
    """`save checkpoint` for `SaveCheckpoint`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", command).lower()


def _info(text: str, rank: int = FROM_SUPERVISOR) -> EventText:
    return EventText(Level.INFO, text, rank)
