"""The side of the window: what must be in sight without scrolling, on small and large machines."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from engine.messages.events import RunEnded
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from gui.app import AppController
from gui.run_list.run_delegate import ROW_HEIGHT
from gui.style.theme import ThemeController
from tests.gui.conftest import wait_for_runs
from tests.support import device_states
from tests.support.device_states import cpu, gpu
from tools.screenshots.fake_telemetry import FakeTelemetry

Open = Callable[..., AppController]


@pytest.fixture
def open_with(qapp: QApplication, qtbot: QtBot, record: Callable[..., Any]) -> Iterator[Open]:
    """Opens a window of 1280 x 800 with six runs, on a machine with these devices."""
    apps: list[AppController] = []

    def open(*devices: DeviceSnapshot, height: int = 800) -> AppController:
        for _ in range(6):
            run = record()
            run.begin()
            run.add(RunEnded("finished", ""))
        telemetry = FakeTelemetry(
            lambda time: Snapshot(time=time, devices=devices), seconds_before=3.0
        )
        app = AppController(ThemeController(qapp), telemetry)
        apps.append(app)
        app.window.show()
        wait_for_runs(app, qtbot)
        app.window.resize(1280, height)
        settle()
        return app

    yield open
    for app in apps:
        app.window.close()
        app.shut_down()
        app.window.deleteLater()


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
def test_start_and_three_runs_are_in_sight_whatever_the_machine(open_with: Open, gpus: int) -> None:
    app = open_with(*(gpu(number) for number in range(gpus)), cpu())
    assert in_sight(app.form)
    assert in_sight(app.form.start_button)
    assert rows_in_sight(app) >= 3
    if gpus <= 8:
        assert all(in_sight(app.devices.row(gpu(number).id)) for number in range(gpus))
        assert in_sight(app.devices.row("cpu"))
    else:
        assert in_sight(app.devices.row(gpu(3).id))
        assert in_sight(app.devices)


def test_four_gpus_and_four_runs_are_in_sight_on_a_small_screen(open_with: Open) -> None:
    app = open_with(*(gpu(number) for number in range(4)), cpu(), height=768 - 32)
    assert all(in_sight(app.devices.row(each)) for each in (*(gpu(n).id for n in range(4)), "cpu"))
    assert in_sight(app.form)
    assert rows_in_sight(app) >= 4


def test_alarms_and_a_problem_leave_start_and_the_runs_in_sight(open_with: Open) -> None:
    app = open_with(*device_states.eight_gpus().devices)
    app.form.devices.chips[device_states.OTHERS].click()
    settle()
    assert app.form.devices.problem_note.problem
    assert in_sight(app.alarms)
    assert in_sight(app.form.start_button)
    assert rows_in_sight(app) >= 3


@pytest.mark.parametrize(("gpus", "height"), [(2, 900), (4, 800)])
def test_an_alarm_moves_no_control_of_the_form(open_with: Open, gpus: int, height: int) -> None:
    app = open_with(*(gpu(number) for number in range(gpus)), cpu(), height=height)
    controls = (app.form.start_button, app.form.strategy, app.form.name_row, app.devices)

    def places() -> list[QPoint]:
        settle()
        return [each.mapTo(app.window, QPoint()) for each in controls]

    before = places()
    app.alarms.show_snapshot(Snapshot(time=1.0, devices=(*device_states.eight_gpus().devices,)))
    assert app.alarms.isVisible()
    assert places() == before
    assert rows_in_sight(app) >= 2


def test_the_advanced_part_scrolls_in_the_form(open_with: Open) -> None:
    app = open_with(gpu(0), cpu())
    app.form.advanced_button.click()
    settle()
    assert in_sight(app.form.start_button)
    assert rows_in_sight(app) >= 3
    assert app.form.advanced.isVisible()
    assert not in_sight(app.form.advanced)


def test_a_taller_window_shows_more_runs_and_all_devices(open_with: Open) -> None:
    app = open_with(*(gpu(number) for number in range(16)), cpu())
    before = rows_in_sight(app)
    assert not in_sight(app.devices.row("cpu"))
    app.window.resize(1280, 1300)
    settle()
    assert in_sight(app.devices.row("cpu"))
    assert rows_in_sight(app) > before + 1


def test_the_search_takes_no_room_until_it_is_wanted(open_with: Open) -> None:
    panel = open_with(gpu(0), cpu()).run_list_panel
    assert not panel.search.isVisible()
    panel.search_button.click()
    assert panel.search.isVisible()
    panel.search.setText("no such run")
    assert panel.empty.isVisible()
    panel.search_button.click()
    assert not panel.search.isVisible()
    assert not panel.empty.isVisible()
