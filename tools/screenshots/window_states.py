"""The states of the window that are worth a picture: the runs, the machine, and what is opened."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from PySide6.QtWidgets import QWidget

from gui.app import AppController
from gui.devices.device_charts import TEN_MINUTES
from gui.devices.row_layouts import SHOWN_SECONDS
from tools.screenshots import fake_machine
from tools.screenshots.fake_telemetry import Machine
from tools.screenshots.pictures import State
from tools.screenshots.recording import load
from tools.screenshots.replayed_run import BusyMachine, ReplayedRun, play

_HOUR = 3600.0
_COMPARED = ("single", "narrow", "dropout", "one-cycle")


def _window(app: AppController) -> QWidget:
    app.plots.toolbar.log_y.setChecked(True)  # else a loss looks like nothing but its beginning
    return app.window


class Stage(NamedTuple):
    """What there is to see."""

    machine: Machine
    run_id: str | None = None
    """The run that is opened; None: there is none."""

    live: ReplayedRun | None = None
    """The run that goes on."""

    past: float = SHOWN_SECONDS
    """For how many seconds the machine has been looked at."""

    subject: Callable[[AppController], QWidget] = _window
    """Opens what should be open, and returns what the picture is of."""


def running() -> Stage:
    """Four workers in the middle of a run."""
    _play_older("wide", "killed")
    return _in_the_middle("live", fake_machine.workstation, 0.99)


def finished() -> Stage:
    """A run that went through all its epochs."""
    _play_older("killed")
    return Stage(fake_machine.workstation, play(load("wide"), ago=140.0).id)


def failed() -> Stage:
    """A run one of whose workers was killed."""
    _play_older("wide")
    return Stage(fake_machine.workstation, play(load("killed"), ago=75.0).id)


def compare() -> Stage:
    """Runs over each other, one of them pinned."""
    played = [*_play_older(), play(load("wide"), ago=300.0)]
    ids = [each.id for each in played]

    def open_comparison(app: AppController) -> QWidget:
        app.chosen.choose(ids)
        app.chosen.pin(ids[0])
        app.run_list_panel.compare.setChecked(True)
        app.comparison.plots.toolbar.log_y.setChecked(True)
        return app.window

    return Stage(fake_machine.workstation, ids[-1], subject=open_comparison)


def first_start() -> Stage:
    """No run yet."""
    return Stage(fake_machine.workstation)


def gpus() -> Stage:
    """Eight GPUs, one of each kind, and a choice that other people are in the way of."""

    def choose_a_busy_one(app: AppController) -> QWidget:
        app.form.devices.box(fake_machine.OTHERS).click()
        return _window(app)

    _play_older()
    stage = _in_the_middle("wide", fake_machine.eight_gpus, 0.6)
    return stage._replace(subject=choose_a_busy_one)


def gpu() -> Stage:
    """The details of a GPU that is too hot."""

    def open_detail(app: AppController) -> QWidget:
        app.devices.open_detail(fake_machine.HOT)
        return app.devices.detail

    return gpus()._replace(subject=open_detail, past=TEN_MINUTES)


STATES: dict[State, Callable[[], Stage]] = {
    "running": running,
    "finished": finished,
    "failed": failed,
    "compare": compare,
    "first-start": first_start,
    "gpus": gpus,
    "gpu": gpu,
}
"""What sets each up in an empty data folder, by its name."""


def _play_older(*names: str) -> list[ReplayedRun]:
    """Runs of some hours ago, the oldest first."""
    all_names = (*_COMPARED, *names)
    return [
        play(load(name), ago=(len(all_names) - place) * 0.7 * _HOUR)
        for place, name in enumerate(all_names)
    ]


def _in_the_middle(name: str, busy: BusyMachine, share: float) -> Stage:
    """A run that goes on, after `share` of its recording."""
    live = play(load(name), busy=busy, share=share)
    return Stage(partial(busy, since=live.since, pids=live.pids), live.id, live)
