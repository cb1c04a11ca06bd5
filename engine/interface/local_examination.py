"""Examines this machine: the checks of the doctor, and trainings with each strategy."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import msgspec

from engine.doctor.examination import OURS, Examination, Pythons, usual_pythons
from engine.doctor.finding import Finding
from engine.environments.registry import UnreadableRegistry
from engine.interface.engine import Engine
from engine.interface.values import ExaminationPart
from engine.planning.requests import Answer, AskTrials
from engine.planning.results import Doing, TriedStrategy
from engine.scripts.interpreters import interpreter_of
from engine.system.cancelled import Cancelled
from engine.system.program import call
from engine.telemetry.helper_client import snapshot_once


def examine(
    engine: Engine,
    depth: Literal["quick", "thorough", "full"],
    environment: str,
    tell: Callable[[ExaminationPart], None],
    cancelled: threading.Event,
) -> None:
    """See `Engine.examine`."""
    examination = Examination(
        _pythons(environment, tell),
        is_cancelled=cancelled.is_set,
        progress=lambda what: tell(ExaminationPart(doing=what)),
    )
    for check in examination.checks(on_gpus=depth != "quick"):
        tell(ExaminationPart(check))
        if cancelled.is_set():
            raise Cancelled
    if depth == "full":
        _try_strategies(engine, examination, tell, cancelled)


def _pythons(environment: str, tell: Callable[[ExaminationPart], None]) -> Pythons:
    """Return the Pythons whose frameworks are checked. Raises NoInterpreter."""
    try:
        if not environment:
            return usual_pythons()
        python = interpreter_of(environment, Path.cwd())
    except UnreadableRegistry as error:  # it is what is to be told, and no reason to tell no more
        text = f"{str(error)[:1].upper()}{str(error)[1:].partition(': `')[0]}."
        advice = f"`{call('fsck --repair')}` mends it."
        tell(ExaminationPart(Finding("environments", "error", text, advice)))
        return OURS
    return Pythons(python, python)


def _try_strategies(
    engine: Engine,
    examination: Examination,
    tell: Callable[[ExaminationPart], None],
    cancelled: threading.Event,
) -> None:
    """Train with each strategy, and tell what a report says besides. Raises Cancelled."""
    driver = msgspec.json.format(msgspec.json.encode(examination.driver)).decode()
    tell(ExaminationPart(title="Driver", text=driver))
    tell(ExaminationPart(title="Devices", text=_devices()))
    logs: list[str] = []

    def take(answer: Answer) -> None:
        match answer:
            case Doing(text):
                tell(ExaminationPart(doing=text))
            case TriedStrategy(trial):
                tell(ExaminationPart(trial.finding))
                logs.extend([f"{trial.finding.name}\n{trial.log}"] if trial.log else [])

    pythons = examination.pythons
    request = AskTrials(examination.given.uuids, pythons.torch, pythons.tensorflow)
    end = engine.measure(request, take, cancelled)
    if cancelled.is_set():
        raise Cancelled
    if end.exit_code:
        tell(ExaminationPart(Finding("strategies", "error", end.sentence)))
    text = "\n\n".join(logs) or "nothing failed"
    tell(ExaminationPart(title="Logs of what failed", text=text))


def _devices() -> str:
    """Return the state of the devices, without the processes of users."""
    snapshot = snapshot_once()
    devices = [msgspec.structs.replace(device, processes=None) for device in snapshot.devices]
    without = msgspec.structs.replace(snapshot, devices=tuple(devices))
    return msgspec.json.format(msgspec.json.encode(without)).decode()
