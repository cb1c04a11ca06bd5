"""Turns each event of a run into a sentence for the log and the table of events."""

from __future__ import annotations

import re
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
from gui.style.translation import translate

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
            text = translate("Events", "Ready on {devices}.")
            if packages:
                text = translate("Events", "Ready on {devices} with {packages}.")
            return _info(text.format(devices=", ".join(devices), packages=packages), rank)
        case TrainingStarted(step, per_epoch, epochs, replicas, parameters):
            if not (epochs and per_epoch and replicas and parameters):
                return _info(_known_start(step, per_epoch, epochs, replicas, parameters))
            if replicas == 1:
                text = translate(
                    "Events",
                    "Training starts at step {step}: {epochs} epochs of {per_epoch} steps, "
                    "1 replica, {parameters:,} parameters.",
                )
            else:
                text = translate(
                    "Events",
                    "Training starts at step {step}: {epochs} epochs of {per_epoch} steps, "
                    "{replicas} replicas, {parameters:,} parameters.",
                )
            return _info(
                text.format(
                    step=step,
                    epochs=epochs,
                    per_epoch=per_epoch,
                    replicas=replicas,
                    parameters=parameters,
                )
            )
        case Metrics(points=points):
            text = translate("Events", "New points of {series}.")
            return _info(text.format(series=", ".join(each.series for each in points)))
        case Progress(epoch, step, speed):
            text = translate("Events", "Epoch {epoch}, step {step}, {speed:,.0f} samples/s.")
            return _info(text.format(epoch=epoch, step=step, speed=speed))
        case EpochEnded(epoch, step, metrics):
            values = "  ".join(
                f"{name} {formatting.metric(name, value)}" for name, value in metrics.items()
            )
            text = translate("Events", "Epoch {epoch} done at step {step}.  {values}")
            return _info(text.format(epoch=epoch, step=step, values=values))
        case ImageLogged(series, step):
            text = translate("Events", "Picture {series} of step {step}.")
            return _info(text.format(series=series, step=step))
        case HistogramLogged(series, step):
            text = translate("Events", "Histogram {series} of step {step}.")
            return _info(text.format(series=series, step=step))
        case CheckpointSaved(path, step, epoch, bytes, seconds):
            text = translate(
                "Events",
                "Checkpoint of step {step} (epochs done: {epoch}) saved as {name} "
                "({size}, {seconds:.2f} s).",
            )
            name, size = Path(path).name, units.byte_size(bytes)
            return _info(text.format(step=step, epoch=epoch, name=name, size=size, seconds=seconds))
        case CheckpointFailed(text=text):
            return EventText(Level.ERROR, text)
        case CacheEmptied(rank, device, freed):
            text = translate("Events", "Cache of {device} emptied: {size} freed.")
            return _info(text.format(device=device, size=units.byte_size(freed)), rank)
        case Paused(step, freed_devices):
            text = translate("Events", "Paused after step {step}.")
            if freed_devices:
                text = translate(
                    "Events",
                    "Paused after step {step}; model and optimizer are in the host's memory.",
                )
            return _info(text.format(step=step))
        case Resumed(step):
            return _info(translate("Events", "Continues after step {step}.").format(step=step))
        case TrainingEnded(step, completed, reason):
            text = translate("Events", "Training ends at step {step}: stopped by command.")
            if reason:
                text = translate("Events", "Training ends at step {step}: {reason}")
            elif completed:
                text = translate("Events", "Training ends at step {step}: all epochs done.")
            return _info(text.format(step=step, reason=reason))
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
            text = translate("Events", "Failed: {message}")
            if where:
                text = translate("Events", "Failed in {where}: {message}")
            level = Level.WARN if lost_peer else Level.ERROR
            return EventText(level, text.format(where=where, message=message), rank)
        case AttemptStarted(attempt, pid):
            text = translate("Events", "Attempt {attempt} starts under supervisor process {pid}.")
            return _info(text.format(attempt=attempt, pid=pid))
        case RecipeChosen(version, changes):
            text = translate(
                "Events", "Goes on with the recipe as it was. Changed since: {changes}."
            )
            if version is RecipeVersion.AS_IT_IS_NOW:
                text = translate("Events", "Goes on with the recipe as it is now: {changes}.")
            return EventText(Level.WARN, text.format(changes=changes))
        case Queued(_, reason):
            return _info(reason or translate("Events", "The run leaves the queue."))
        case WorkerStarted(rank, pid, devices):
            text = translate("Events", "Worker process {pid} started for {devices}.")
            return _info(text.format(pid=pid, devices=", ".join(devices)), rank)
        case CommandReceived(command):
            text = translate("Events", "Command received: {command}.")
            return _info(text.format(command=_command_name(command)))
        case CommandRefused(command, reason):
            text = translate("Events", "Command refused: {command}. {reason}")
            return EventText(Level.WARN, text.format(command=_command_name(command), reason=reason))
        case StopStage(stage):
            return EventText(Level.INFO if stage == "ask" else Level.WARN, _stop(stage))
        case Rewound(step, own_file=own_file) if own_file:
            text = translate("Events", "The command goes on with {file}, after step {step}.")
            return _info(text.format(file=own_file, step=step))
        case Rewound(step, checkpoint):
            if not checkpoint:
                return _info(
                    translate("Events", "Starts again from the beginning: there is no checkpoint.")
                )
            text = translate("Events", "Continues from checkpoint {checkpoint}, after step {step}.")
            return _info(text.format(checkpoint=checkpoint, step=step))
        case Restarting(failure, number, most):
            text = translate("Events", "Restart {number} of {most}: {message}")
            text = text.format(number=number, most=most, message=failure.message)
            return EventText(Level.WARN, text, failure.rank)
        case RunEnded(state, reason, failure):
            rank = failure.rank if failure else FROM_SUPERVISOR
            level = Level.INFO if state in _CALM_ENDS else Level.ERROR
            text = translate("Events", "Run {state}.").format(state=state)
            return EventText(level, reason or text, rank)
        case _:
            assert_never(event)


def _stop(stage: str) -> str:
    match stage:
        case "ask":
            return translate("Events", "Stop: the workers are asked to save and exit.")
        case "terminate":
            return translate("Events", "Stop: the workers are terminated.")
        case "kill":
            return translate("Events", "Stop: the workers are killed.")
        case _:
            return translate("Events", "Stop: {stage}.").format(stage=stage)


def event_name(event: Event) -> str:
    """Return the kind of the event, such as `Checkpoint saved`."""
    return str(event.__struct_config__.tag).replace("_", " ").capitalize()


def _command_name(command: str) -> str:
    """Return `save checkpoint` for `SaveCheckpoint`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", command).lower()


def _known_start(step: int, per_epoch: int, epochs: int, replicas: int, parameters: int) -> str:
    """Say of the start of a script what is known; 0 is not."""
    facts = (
        (epochs, translate("Events", "epochs: {number:,}")),
        (per_epoch, translate("Events", "steps per epoch: {number:,}")),
        (replicas, translate("Events", "replicas: {number:,}")),
        (parameters, translate("Events", "parameters: {number:,}")),
    )
    known = ", ".join(text.format(number=number) for number, text in facts if number)
    if not known:
        return translate("Events", "Training starts at step {step}.").format(step=step)
    text = translate("Events", "Training starts at step {step}; {known}.")
    return text.format(step=step, known=known)


def _info(text: str, rank: int = FROM_SUPERVISOR) -> EventText:
    return EventText(Level.INFO, text, rank)
