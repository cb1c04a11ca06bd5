"""The side of the window: what must be in sight without scrolling, on small and large machines."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QApplication, QWidget

from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from gui.app import AppController
from gui.run_list.run_delegate import ROW_HEIGHT
from tests.gui.conftest import OpenApp
from tests.support import device_states
from tests.support.device_states import cpu, gpu
from tests.support.recorded_runs import record_epochs

Show = Callable[..., AppController]


@pytest.fixture
def show(open_app: OpenApp) -> Show:
    """Opens a window of 1280 x 800 with six runs, on a machine with these devices."""

    def show(*devices: DeviceSnapshot, height: int = 800) -> AppController:
        for _ in range(6):
            record_epochs("finished")
        app = open_app(*devices)
        app.window.resize(1280, height)
        settle()
        return app

    return show


def settle() -> None:
    """Until every layout has heard of every other one."""
    for _ in range(5):
        QApplication.processEvents()


def in_sight(widget: QWidget) -> bool:
    """Whether the whole of it can be seen, without scrolling anything."""
    return widget.visibleRegion().boundingRect() == widget.rect()


def rows_in_sight(app: AppController) -> float:
    return app.run_list.viewport().visibleRegion().boundingRect().height() / ROW_HEIGHT


@pytest.mark.parametrize("gpus", [0, 1, 4, 8, 16])
def test_start_and_three_runs_are_in_sight_whatever_the_machine(show: Show, gpus: int) -> None:
    app = show(*(gpu(number) for number in range(gpus)), cpu())
    assert in_sight(app.form)
    assert in_sight(app.form.start_button)
    assert rows_in_sight(app) >= 3
    if gpus <= 8:
        assert all(in_sight(app.devices.row(gpu(number).id)) for number in range(gpus))
        assert in_sight(app.devices.row("cpu"))
    else:
        assert in_sight(app.devices.row(gpu(3).id))
        assert in_sight(app.devices)


def test_four_gpus_and_four_runs_are_in_sight_on_a_small_screen(show: Show) -> None:
    app = show(*(gpu(number) for number in range(4)), cpu(), height=768 - 32)
    assert all(in_sight(app.devices.row(each)) for each in (*(gpu(n).id for n in range(4)), "cpu"))
    assert in_sight(app.form)
    assert rows_in_sight(app) >= 4


def test_alarms_and_a_problem_leave_start_and_the_runs_in_sight(show: Show) -> None:
    app = show(*device_states.eight_gpus().devices)
    app.form.devices.chips[device_states.OTHERS].click()
    settle()
    assert app.form.devices.problem_note.problem
    assert in_sight(app.alarms)
    assert in_sight(app.form.start_button)
    assert rows_in_sight(app) >= 3


@pytest.mark.parametrize(("gpus", "height"), [(2, 900), (4, 800)])
def test_an_alarm_moves_no_control_of_the_form(show: Show, gpus: int, height: int) -> None:
    app = show(*(gpu(number) for number in range(gpus)), cpu(), height=height)
    controls = (app.form.start_button, app.form.strategy, app.form.name_row, app.devices)

    def places() -> list[QPoint]:
        settle()
        return [each.mapTo(app.window, QPoint()) for each in controls]

    before = places()
    app.alarms.show_snapshot(Snapshot(time=1.0, devices=(*device_states.eight_gpus().devices,)))
    assert app.alarms.isVisible()
    assert places() == before
    assert rows_in_sight(app) >= 2


def test_a_taller_window_shows_more_runs_and_all_devices(show: Show) -> None:
    app = show(*(gpu(number) for number in range(16)), cpu())
    before = rows_in_sight(app)
    assert not in_sight(app.devices.row("cpu"))
    app.window.resize(1280, 1300)
    settle()
    assert in_sight(app.devices.row("cpu"))
    assert rows_in_sight(app) > before + 1


def test_what_is_rarely_wanted_takes_no_room(show: Show) -> None:
    """The search of the runs, and the advanced part of the form, which scrolls."""
    app = show(gpu(0), cpu())
    panel = app.run_list_panel
    assert not panel.search.isVisible()
    panel.search_button.click()
    assert panel.search.isVisible()
    panel.search.setText("no such run")
    assert panel.empty.isVisible()
    panel.search_button.click()
    assert not panel.search.isVisible()
    assert not panel.empty.isVisible()
    app.form.advanced_button.click()
    settle()
    assert in_sight(app.form.start_button)
    assert rows_in_sight(app) >= 3
    assert app.form.advanced.isVisible()
    assert not in_sight(app.form.advanced)
