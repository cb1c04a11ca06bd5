"""States before a run: a race, the findings of a preflight, memory and batch size.

The race was really measured, on CPU workers, and is replayed as one of GPUs, whose memory is made
up like the GPUs themselves; so are the prediction, the sizes that were tried, and the measurements
from which the rules of a preflight have made their findings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
from msgspec.structs import replace
from PySide6.QtWidgets import QWidget

from engine.doctor.finding import Change
from engine.planning.checks import checkpoints, communication, loading, training, whole_run
from engine.planning.checks.checkpoints import DiskFacts
from engine.planning.preflight import with_names
from engine.planning.requests import AskBatch, AskMemory, AskPreflight, AskRace
from engine.planning.results import (
    BatchSearch,
    DeviceEstimate,
    Doing,
    Entry,
    MemoryEstimate,
    Preflight,
    Race,
    Raced,
    Sized,
    Tried,
)
from engine.planning.short_run import ShortRun
from engine.spec.run_spec import RunSpec
from gui.app import AppController
from tools.screenshots import fake_machine
from tools.screenshots.fake_machine import GIB, uuid
from tools.screenshots.recording import FOLDER, load
from tools.screenshots.replayed_run import replay
from tools.screenshots.scene import Scene, curves_of_window, in_the_middle, replay_older

_MEASURED = FOLDER / "race.json"
_MEMORY: Mapping[str, float] = {
    "torch/ddp": 61.2, "torch/fsdp": 38.4, "torch/pipeline": 44.1, "torch/model_parallel": 36.0,
    "torch/single": 60.3, "torch/data_parallel": 79.4,
}  # fmt: skip
_JOULES: Mapping[str, float] = {
    "torch/ddp": 0.11, "torch/fsdp": 0.13, "torch/pipeline": 0.17, "torch/model_parallel": 0.24,
    "torch/single": 0.1,
}  # fmt: skip
_FULL = "Out of memory on GPU 0: the step needs 83.1 of 80.0 GiB. Use a smaller batch size."
"""Of the strategy that fails in the picture; on the CPU workers it did not."""


def race() -> Scene:
    """A race that is over, and the findings of a preflight."""

    def show(app: AppController) -> QWidget:
        _fill_form(app)
        measured, tell = _measured(), app.planning
        tell.begun.emit(AskRace(entrants=tuple(each.spec for each in measured.entries), steps=20))
        tell.found.emit(AskRace(entrants=()), measured)
        tell.ended.emit(AskRace(entrants=()))
        spec = _form_spec(app)
        tell.found.emit(AskPreflight(spec), _preflight(spec))
        _estimate(app)
        app.window.show_page("race")
        app.rooms.race.count_entrants()
        return app.window

    return _scene(show)


def race_running() -> Scene:
    """A race of which two entries are not measured yet, seen beside a run that trains."""

    def show(app: AppController) -> QWidget:
        _fill_form(app)
        measured, planning = _measured(), app.planning
        request = AskRace(entrants=tuple(each.spec for each in measured.entries), steps=20)
        app.window.show_page("race")
        planning.begun.emit(request)
        for entry in measured.entries[1:4]:
            planning.news.emit(request, Raced(replace(entry, efficiency=None, is_tied=False)))
        planning.news.emit(request, Raced(measured.entries[-1]))
        planning.news.emit(
            request, Doing("Trains 20 steps with torch/ddp on 2 devices.", 4, 6, "torch/ddp")
        )
        app.rooms.race.page.table.selectRow(3)
        return app.window

    return _scene(show)


def race_empty() -> Scene:
    """The page before the first race."""

    def show(app: AppController) -> QWidget:
        _fill_form(app)
        app.window.show_page("race")
        app.rooms.race.count_entrants()
        return app.window

    return _scene(show)


def batch_size() -> Scene:
    """The dialog that has found a batch size."""

    def show(app: AppController) -> QWidget:
        _fill_form(app)
        spec = _form_spec(app)
        dialog = app.rooms.race.open_batch_dialog(spec)
        tried = (
            Tried(batch_size=192, fits=True, samples_per_second=4130, memory=26.1 * GIB),
            Tried(batch_size=384, fits=True, samples_per_second=5210, memory=41.7 * GIB),
            Tried(batch_size=768, fits=False, memory=80 * GIB, problem=_FULL),
            Tried(batch_size=576, fits=True, samples_per_second=5480, memory=58.9 * GIB),
            Tried(batch_size=672, fits=True, samples_per_second=5440, memory=66.8 * GIB),
        )
        for each in tried:
            app.planning.news.emit(AskBatch(spec), Sized(each))
        text = "672 is the largest batch that fits, and 576 gives the most samples per second."
        change = Change("Use the batch size 576", {"batch_size": 576})
        found = BatchSearch(tried=tried, largest=672, fastest=576, text=text, change=change)
        app.planning.found.emit(AskBatch(spec), found)
        app.planning.ended.emit(AskBatch(spec))
        return dialog

    return _scene(show)


def not_tried() -> Scene:
    """The form for devices on which this recipe was never trained, beside a finished run."""

    def fill(app: AppController) -> QWidget:
        app.form.devices.chips[uuid(3)].click()
        app.form.strategy.choose("torch/ddp")
        return curves_of_window(app)

    replay_older()
    return Scene(fake_machine.workstation, replay(load("wide"), ago=140.0).id, subject=fill)


def _scene(subject: Callable[[AppController], QWidget]) -> Scene:
    replay_older("wide", "killed")
    scene = in_the_middle("live", fake_machine.workstation, 0.99)
    return scene._replace(subject=subject)


def _fill_form(app: AppController) -> None:
    form = app.form
    for chip in list(form.devices.chips.values())[1:3]:
        if not chip.isChecked():
            chip.click()
    form.strategy.choose("torch/fsdp")
    form.field("batch_size").set_value(256)


def _form_spec(app: AppController) -> RunSpec:
    spec = app.form.spec()
    assert spec is not None
    return spec


def _measured() -> Race:
    """Return the race that was recorded, on the made-up GPUs."""
    race = msgspec.json.decode(_MEASURED.read_bytes(), type=Race)
    return replace(race, entries=tuple(map(_on_gpus, race.entries)))


def _on_gpus(entry: Entry) -> Entry:
    devices = tuple(uuid(number) for number in range(len(entry.devices)))
    memory = dict.fromkeys(devices, _MEMORY[entry.strategy] * GIB)
    spec = replace(entry.spec, devices=devices)
    entry = replace(entry, devices=devices, memory=memory, spec=spec)
    if entry.strategy == "torch/data_parallel":
        return replace(
            entry, samples_per_second=None, efficiency=None, first_step_seconds=0.0, shares={},
            problem=_FULL, noise=0.0,
        )  # fmt: skip
    return replace(entry, joules=_JOULES[entry.strategy])


def _preflight(spec: RunSpec) -> Preflight:
    """Return what the rules of a preflight say of made-up measurements."""
    disk = DiskFacts(
        folder=Path("/data/runs"), free=int(42.4 * GIB), total=2000 * GIB, bytes_per_second=1.9e9
    )
    run = _short_run(spec, rate=1494.0, data=0.14)
    quicker = _short_run(spec, rate=1630.0, data=0.02)
    expected = whole_run.expectation(run, disk)
    names = {uuid(number): f"GPU {number}" for number in range(4)}
    found = (
        training.ranks_finding(run),
        training.weights_finding(run),
        communication.all_reduce_finding(run),
        loading.loading_finding(run, "", quicker),
        *checkpoints.checkpoints_findings(run, disk, expected.saves),
        whole_run.whole_run_finding(run, expected),
    )
    figures = {name.removesuffix("/seconds"): value for name, value in run.measured.items()}
    return Preflight(
        spec=spec,
        findings=tuple(with_names(each, names) for each in found if each is not None),
        figures=figures | {"step_seconds": training.step_seconds(run)},
        expected_seconds=expected.seconds,
        expected_wh=expected.wh,
    )


def _short_run(spec: RunSpec, *, rate: float, data: float) -> ShortRun:
    """Return a made-up short run of `rate` samples/s whose ranks wait for samples for the part
    `data` of a step; the third rank has a hot GPU."""
    rates = (2**10, 4e6), (2**14, 5e7), (2**18, 6.2e8), (2**22, 5.4e9), (2**26, 2.1e10)
    measured = {f"all_reduce/{size}/seconds": size / rate for size, rate in rates}
    seconds = (0, 0.024), (1, 0.027), (2, 0.014), (4, 0.009)
    for rank in range(len(spec.devices)):
        measured |= {f"rank/{rank}/loading/{n}/seconds": each for n, each in seconds}
        measured[f"rank/{rank}/weights"] = -318.42
    waits = (0.3, 0.31, 0.06)
    shares = {
        rank: {"communication": wait, "data": data, "compute": 1 - wait - data}
        for rank, wait in enumerate(waits[: len(spec.devices)])
    }
    return ShortRun(
        spec=spec, steps=40, samples_per_second=rate, rates=(rate,), measured_steps=36,
        step_seconds=spec.batch_size / rate, first_step_seconds=2.1, seconds=9.0,
        rank_shares=shares, measured=measured, parameters=355_000_000, joules=0.12,
        steps_per_epoch=600, steps_in_all=12_000, replicas=len(spec.devices),
        checkpoint_bytes=int(9.55 * GIB),
    )  # fmt: skip


def _estimate(app: AppController) -> None:
    spec = _form_spec(app)
    devices = tuple(
        DeviceEstimate(
            device=device, weights=4.1 * GIB, gradients=4.1 * GIB, optimizer=8.2 * GIB,
            activations=37.5 * GIB, other=7.1 * GIB, total=61.0 * GIB, available=80 * GIB,
        )
        for device in spec.devices
    )  # fmt: skip
    text = "Fits: about 61 of 80 GiB."
    app.planning.found.emit(AskMemory(spec), MemoryEstimate(devices=devices, text=text, fits=True))
