"""Turns each event of a run into a sentence for the log and the table of events."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple, assert_never

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
    RecipeVersion,
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
from engine.system import units
from engine.telemetry.alarms import AlarmKind
from gui.style import formatting

FROM_SUPERVISOR = -1


class Level(StrEnum):
    """How serious an event is."""

    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"


class EventText(NamedTuple):
    """An event as shown to the user."""

    level: Level
    text: str
    rank: int = FROM_SUPERVISOR


_ERRORS = [kind.value for kind in AlarmKind if kind.severity == "error"]
"""Kinds of alarms that are shown as errors: training steps are lost or may be lost."""

_CALM_ENDS = ("finished", "stopped")
"""States in which a run ends as the user wants."""


def event_text(event: Event) -> EventText:
    """Return the level, the sentence and the rank (-1: the supervisor) of `event`."""
    match event:
        case WorkerReady(rank, devices, versions):
            packages = ", ".join(f"{name} {version}" for name, version in versions.items())
            text = f"Ready on {_listed(devices)}."
            if packages:
                text = f"Ready on {_listed(devices)} with {packages}."
            return _info(text, rank)
        case TrainingStarted(step, per_epoch, epochs, replicas, parameters):
            if not (epochs and per_epoch and replicas and parameters):
                return _info(_known_start(step, per_epoch, epochs, replicas, parameters))
            if replicas == 1:
                text = (
                    f"Training starts at step {step}: {epochs} epochs of {per_epoch} steps, "
                    f"1 replica, {parameters:,} parameters."
                )
            else:
                text = (
                    f"Training starts at step {step}: {epochs} epochs of {per_epoch} steps, "
                    f"{replicas} replicas, {parameters:,} parameters."
                )
            return _info(text)
        case Metrics(points=points):
            return _info(f"New points of {_listed(each.series for each in points)}.")
        case Progress(epoch, step, speed):
            return _info(f"Epoch {epoch}, step {step}, {speed:,.0f} samples/s.")
        case EpochEnded(epoch, step, metrics):
            values = "  ".join(
                f"{name} {formatting.metric(name, value)}" for name, value in metrics.items()
            )
            return _info(f"Epoch {epoch} done at step {step}.  {values}")
        case ImageLogged(series, step):
            return _info(f"Picture {series} of step {step}.")
        case HistogramLogged(series, step):
            return _info(f"Histogram {series} of step {step}.")
        case CheckpointSaved(path, step, epoch, bytes, seconds):
            name, size = Path(path).name, units.byte_size(bytes)
            return _info(
                f"Checkpoint of step {step} (epochs done: {epoch}) saved as {name} ({size}, "
                f"{seconds:.2f} s)."
            )
        case CheckpointFailed(text=text):
            return EventText(Level.ERROR, text)
        case CacheEmptied(rank, device, freed):
            return _info(f"Cache of {device} emptied: {units.byte_size(freed)} freed.", rank)
        case Paused(step, freed_devices):
            text = f"Paused after step {step}."
            if freed_devices:
                text = f"Paused after step {step}; model and optimizer are in the host's memory."
            return _info(text)
        case Resumed(step):
            return _info(f"Continues after step {step}.")
        case TrainingEnded(step, completed, reason):
            text = f"Training ends at step {step}: stopped by command."
            if reason:
                text = f"Training ends at step {step}: {reason}"
            elif completed:
                text = f"Training ends at step {step}: all epochs done."
            return _info(text)
        case Notice(text, rank):
            return EventText(Level.WARN, text, rank)
        case Shrunk(rank, text=text):
            return EventText(Level.WARN, text, rank)
        case Alarm(kind=kind, text=text, raised=raised):
            level = Level.ERROR if kind in _ERRORS else Level.WARN
            return EventText(level if raised else Level.INFO, text)
        case Trouble(text=text, raised=raised):
            return EventText(Level.ERROR if raised else Level.INFO, text)
        case WorkerFailed(rank, message, where, _, lost_peer, details):
            message = " ".join([message, *details.split()])
            text = f"Failed: {message}"
            if where:
                text = f"Failed in {where}: {message}"
            level = Level.WARN if lost_peer else Level.ERROR
            return EventText(level, text, rank)
        case AttemptStarted(attempt, pid):
            return _info(f"Attempt {attempt} starts under supervisor process {pid}.")
        case RecipeChosen(version, changes):
            text = f"Goes on with the recipe as it was. Changed since: {changes}."
            if version is RecipeVersion.AS_IT_IS_NOW:
                text = f"Goes on with the recipe as it is now: {changes}."
            return EventText(Level.WARN, text)
        case Queued(_, reason):
            return _info(reason or "The run leaves the queue.")
        case WorkerStarted(rank, pid, devices):
            return _info(f"Worker process {pid} started for {_listed(devices)}.", rank)
        case CommandReceived(command):
            return _info(f"Command received: {_command_name(command)}.")
        case CommandRefused(command, reason):
            return EventText(Level.WARN, f"Command refused: {_command_name(command)}. {reason}")
        case StopStage(stage):
            return EventText(Level.INFO if stage == "ask" else Level.WARN, _stop(stage))
        case Rewound(step, own_file=own_file) if own_file:
            return _info(f"The command goes on with {own_file}, after step {step}.")
        case Rewound(step, checkpoint):
            if not checkpoint:
                return _info("Starts again from the beginning: there is no checkpoint.")
            return _info(f"Continues from checkpoint {checkpoint}, after step {step}.")
        case Restarting(failure, number, most):
            text = f"Restart {number} of {most}: {failure.message}"
            return EventText(Level.WARN, text, failure.rank)
        case RunEnded(state, reason, failure):
            rank = failure.rank if failure else FROM_SUPERVISOR
            level = Level.INFO if state in _CALM_ENDS else Level.ERROR
            text = f"Run {state}."
            return EventText(level, reason or text, rank)
        case _:
            assert_never(event)


def _stop(stage: str) -> str:
    match stage:
        case "ask":
            return "Stop: the workers are asked to save and exit."
        case "terminate":
            return "Stop: the workers are terminated."
        case "kill":
            return "Stop: the workers are killed."
        case _:
            return f"Stop: {stage}."


def event_name(event: Event) -> str:
    """Return the kind of the event, such as `Checkpoint saved`."""
    return str(event.__struct_config__.tag).replace("_", " ").capitalize()


def _command_name(command: str) -> str:
    """Return `save checkpoint` for `SaveCheckpoint`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", command).lower()


def _known_start(step: int, per_epoch: int, epochs: int, replicas: int, parameters: int) -> str:
    """Say of the start of a script what is known; 0 is not."""
    facts = (
        (epochs, "epochs"),
        (per_epoch, "steps per epoch"),
        (replicas, "replicas"),
        (parameters, "parameters"),
    )
    known = _listed(f"{what}: {number:,}" for number, what in facts if number)
    if not known:
        return f"Training starts at step {step}."
    return f"Training starts at step {step}; {known}."


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


def _info(text: str, rank: int = FROM_SUPERVISOR) -> EventText:
    return EventText(Level.INFO, text, rank)
