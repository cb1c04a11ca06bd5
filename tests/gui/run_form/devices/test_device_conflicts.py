"""What is said beside the devices of a new run when other runs use them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from pytestqt.qtbot import QtBot

from engine.client import RunInfo
from engine.runs.run_index import RunIndex
from engine.runs.run_state import RunState, RunStatus
from engine.spec.run_spec import RunSpec
from gui.run_form.devices.device_conflicts import overlap
from gui.run_form.run_form import RunForm
from tests.gui.conftest import Record
from tests.support.sentences import sentence

NAMES = {"g0": "GPU 0", "g1": "GPU 1"}


def spec(*devices: str, **changes: Any) -> RunSpec:
    return RunSpec(recipe="digits", strategy="torch/ddp", devices=devices, **changes)


def run(id: str, *devices: str, state: RunState = RunState.RUNNING, **status: Any) -> RunInfo:
    return RunInfo(id, Path(id), spec(*devices), RunStatus(state=state, **status), state, "")


RUNS = [
    run("14", "g0", state=RunState.QUEUED),
    run("9", "g0", "g1"),
    run("8", "g1", state=RunState.PAUSED, freed_devices=True),
    run("7", "g0", state=RunState.FINISHED),
    run("6", "cpu:0"),
]


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (spec("g0"), sentence("run-will-queue-behind-runs")),
        (spec("g1"), sentence("run-will-queue-behind-run", run=9, device="GPU 1")),
        (spec("g1", queue="never"), sentence("run-will-share-with-run", device="GPU 1", run=9)),
        (spec("cpu:0", "cpu:1"), sentence("run-will-share-with-run", device="cpu:0", run=6)),
        (
            spec("cpu:0", queue="always"),
            sentence("run-will-queue-behind-run", run=6, device="cpu:0"),
        ),
        (spec("g2"), ""),
    ],
)
def test_who_uses_the_devices_too(new: RunSpec, said: str) -> None:
    assert overlap(new, RUNS, lambda device: NAMES.get(device, device)) == said


def test_it_stands_beside_the_devices_of_the_form(qtbot: QtBot, record: Record) -> None:
    record(spec("cpu:0")).begin()
    form = RunForm()
    qtbot.addWidget(form)
    assert form.devices.warning == ""
    runs = RunIndex().runs()
    form.show_runs(runs)
    assert form.devices.warning == sentence("run-will-share-with-run", device="cpu:0", run=1)
    form.load(msgspec.structs.replace(spec("cpu:0"), strategy="torch/single", queue="always"))
    assert form.devices.warning == sentence("run-will-queue-behind-run", run=1, device="cpu:0")
    form.show_runs([])
    assert form.devices.warning == ""
