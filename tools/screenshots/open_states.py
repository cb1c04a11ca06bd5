"""States in which the user has opened or filled something: form, table, dialogs, panels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec
from PySide6.QtCore import QCoreApplication, QEventLoop
from PySide6.QtWidgets import QLineEdit, QWidget

from engine.doctor.finding import Finding
from gui.app import AppController
from tools.screenshots import fake_machine
from tools.screenshots.recorded_sweep import load_sweep, replay_sweep
from tools.screenshots.recording import load
from tools.screenshots.replayed_run import replay
from tools.screenshots.scene import Scene, curves_of_window, replay_older

_MANY = 40
_CHECKS = (
    Finding("driver", "ok", "The NVIDIA driver 580.95.05 works and knows 4 GPUs."),
    Finding("devices", "ok", "This process may read and write the device files of all GPUs."),
    Finding(
        "PyTorch",
        "error",
        "PyTorch 2.13.0 was built for CPUs only, so it cannot use the GPUs.",
        "Make an environment with CUDA: `traindeck env create torch-cuda --package torch`.",
    ),
    Finding("TensorFlow", "ok", "TensorFlow 2.21.0 was built with CUDA 12.9 and finds 4 GPUs."),
    Finding("GPUs compute", "unknown", "Not checked: Check all computes on each GPU."),
    Finding("shared memory", "ok", "/dev/shm has 63 of 64 GiB free."),
    Finding("disk", "ok", "The data folder has 812 GiB free."),
)


def form() -> Scene:
    """The form for a run of three GPUs, with its advanced settings."""

    def fill(app: AppController) -> QWidget:
        form = app.form
        for chip in list(form.devices.chips.values())[1:3]:
            chip.click()
        form.field("batch_size").set_value(192)
        form.field("learning_rate").set_value(0.0015)
        form.name_row.name.setText("wider, with warm-up")
        form.name_row.tags.setText("sweep, baseline")
        for line in (form.name_row.name, form.name_row.tags):
            line.editingFinished.emit()
        form.strategy.choose("torch/ddp")
        form.advanced_button.setChecked(True)
        return curves_of_window(app)

    return _finished(fill)


def form_faults() -> Scene:
    """A form with several faults."""

    def spoil(app: AppController) -> QWidget:
        for name, text in (("batch_size", "0"), ("learning_rate", "fast"), ("epochs", "-3")):
            line = app.form.field(name).widget
            assert isinstance(line, QLineEdit)
            line.setText(text)
        app.form.devices.chips[fake_machine.uuid(0)].click()
        return curves_of_window(app)

    return _finished(spoil)


def compare_many() -> Scene:
    """The comparison of forty runs."""
    names = ("single", "narrow", "dropout", "one-cycle")
    played = []
    for number in range(_MANY):
        recording = load(names[number % len(names)])
        spec = msgspec.structs.replace(recording.spec, seed=number)
        recording = msgspec.structs.replace(recording, spec=spec)
        played.append(replay(recording, ago=(_MANY - number) * 600.0))
    ids = [each.id for each in played]

    def open_comparison(app: AppController) -> QWidget:
        app.chosen.choose(ids)
        app.run_list_panel.compare.setChecked(True)
        app.rooms.runs.comparison.plots.toolbar.log_y.setChecked(True)
        return app.window

    return Scene(fake_machine.workstation, ids[-1], subject=open_comparison)


def groups() -> Scene:
    """The table of runs, filtered and grouped."""
    runs = [*replay_older("wide", "killed"), replay(load("wide"), ago=300.0)]

    def open_table(app: AppController) -> QWidget:
        app.window.show_page("runs")
        page = app.rooms.runs.page
        page.filter.setText("val/accuracy>0.95 and state!=queued")
        page.filter.changed.emit(page.filter.text())
        while page.group.findData("strategy") < 0:  # the columns are found in the background
            QCoreApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)
        page.group.setCurrentIndex(page.group.findData("strategy"))
        app.chosen.choose([each.id for each in runs[:3]])
        return app.window

    return Scene(fake_machine.workstation, runs[-1].id, subject=open_table)


def sweep() -> Scene:
    """A sweep that is over: the trials with a small learning rate are left out."""
    _, played = replay_sweep(load_sweep("sweep"))

    def open_sweep(app: AppController) -> QWidget:
        app.window.show_page("sweeps")
        page = app.rooms.sweeps.page
        while page.shown is None or page.best_plot.curves.is_reading:
            QCoreApplication.processEvents(QEventLoop.ProcessEventsFlag.WaitForMoreEvents)
        page.parallel.brush(0, 0.45, 1.0)
        page.best_plot.plot.refresh()
        return app.window

    return Scene(fake_machine.workstation, played[-1].id, subject=open_sweep)


def sweep_dialog() -> Scene:
    """The dialog that makes a sweep of runs on two GPUs."""

    def open_dialog(app: AppController) -> QWidget:
        app.form.devices.chips[fake_machine.uuid(1)].click()
        app.form.strategy.choose("torch/ddp")
        app.form.request_sweep()
        dialog = app.rooms.sweeps.dialog
        assert dialog is not None
        dialog.ranges["learning_rate"].line.setText("1e-4..1e-1:log")
        dialog.ranges["batch_size"].line.setText("64,128,256")
        dialog.options["parallel"].set_value(2)
        dialog.options["trials"].set_value(40)
        dialog.options["pruner"].set_value("successive-halving")
        return dialog

    return _finished(open_dialog)


def doctor() -> Scene:
    """The dialog Doctor with all kinds of results."""

    def open_doctor(app: AppController) -> QWidget:
        for check in _CHECKS:
            app.doctor_dialog.add(check)
        app.doctor.ended.emit(True)
        app.doctor_dialog.show()
        return app.doctor_dialog

    return Scene(fake_machine.workstation, subject=open_doctor)


def log() -> Scene:
    """The log of a run that has failed, as high as the page."""

    def open_log(app: AppController) -> QWidget:
        app.window.show_log()
        app.window.run_page.choose("full")
        return app.window

    replay_older("wide")
    return Scene(fake_machine.workstation, replay(load("killed"), ago=75.0).id, subject=open_log)


def log_events() -> Scene:
    """The events of a run, as high as the page."""

    def open_events(app: AppController) -> QWidget:
        app.window.bottom.show_page(app.events)
        app.window.run_page.choose("full")
        return app.window

    return log()._replace(subject=open_events)


def export() -> Scene:
    """The dialog that exports a run."""

    def open_export(app: AppController) -> QWidget:
        infos = app.run_list_panel.runs()
        dialog = app.exchange.export(infos[:1])
        assert dialog is not None
        dialog.folder.setText("~/reports")
        return dialog

    return _finished(open_export)


def rail() -> Scene:
    """The left column folded to the narrow rail."""

    def fold(app: AppController) -> QWidget:
        app.window.body.fold(True)
        return curves_of_window(app)

    return _finished(fold)


def column() -> Scene:
    """The left column, opened over the page of a narrow window."""

    def unfold(app: AppController) -> QWidget:
        app.window.resize(900, 700)
        app.window.show_form()
        return curves_of_window(app)

    return _finished(unfold)


def _finished(subject: Callable[[AppController], QWidget]) -> Scene:
    replay_older("killed")
    run = replay(load("wide"), ago=140.0)
    return Scene(partial(fake_machine.workstation), run.id, subject=subject)
