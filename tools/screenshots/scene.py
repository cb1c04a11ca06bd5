"""What a picture shows: runs in the data folder, a machine, and what is open in the window."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from PySide6.QtWidgets import QWidget

from gui.app import AppController
from gui.devices.row_layouts import SHOWN_SECONDS
from tools.screenshots.fake_telemetry import Machine
from tools.screenshots.recording import load
from tools.screenshots.replayed_run import BusyMachine, ReplayedRun, replay

_HOUR = 3600.0
_COMPARED = ("single", "narrow", "dropout", "one-cycle")


def curves_of_window(app: AppController) -> QWidget:
    """Show the whole window, with a logarithmic axis for the loss."""
    app.rooms.run.plots.toolbar.log_y.setChecked(True)  # a linear axis shows little but the start
    return app.window


class Scene(NamedTuple):
    """What a picture shows."""

    machine: Machine
    run_id: str | None = None
    """The run that is open, if any."""

    live: ReplayedRun | None = None
    """The run that is open, if it is active."""

    others: tuple[ReplayedRun, ...] = ()
    """The other active runs."""

    seconds_before: float = SHOWN_SECONDS
    """Length of the telemetry history."""

    subject: Callable[[AppController], QWidget] = curves_of_window
    """Prepares the window, and returns the widget of the picture."""


def replay_older(*names: str) -> list[ReplayedRun]:
    """Replay runs that ended some hours ago, the oldest first."""
    all_names = (*_COMPARED, *names)
    return [
        replay(load(name), ago=(len(all_names) - place) * 0.7 * _HOUR)
        for place, name in enumerate(all_names)
    ]


def in_the_middle(name: str, busy: BusyMachine, progress: float) -> Scene:
    """An active run, at `progress` of its recording."""
    live = replay(load(name), busy=busy, progress=progress)
    return Scene(partial(busy, since=live.since, pids=live.pids), live.id, live)
