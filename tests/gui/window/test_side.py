"""The side of the window: what must be in sight without scrolling, on small and large machines."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint
from PySide6.QtWidgets import QApplication, QWidget

from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from gui.app import AppController
from gui.run_list.run_delegate import ROW_HEIGHT
from tests.gui.conftest import OpenApp
from tests.support import device_states
from tests.support.device_states import cpu, eight_gpus, gpu
from tests.support.recorded_runs import record_epochs

SMALL = 768 - 32
"""Height of a window on a small screen; the usual one is 800."""


@pytest.fixture(autouse=True)
def six_runs() -> None:
    for _ in range(6):
        record_epochs("finished")


def show(app: AppController, *devices: DeviceSnapshot, height: int = 800) -> None:
    app.telemetry.snapshot.emit(Snapshot(time=1.0, devices=devices))
    app.window.resize(1280, height)
    settle()


def settle() -> None:
    """Until every layout has heard of every other one."""
    for _ in range(5):
        QApplication.processEvents()


def in_sight(*widgets: QWidget) -> bool:
    """Whether the whole of each can be seen, without scrolling anything."""
    return all(each.visibleRegion().boundingRect() == each.rect() for each in widgets)


def rows_in_sight(app: AppController) -> float:
    return app.run_list.viewport().visibleRegion().boundingRect().height() / ROW_HEIGHT


def test_start_and_three_runs_are_in_sight_whatever_the_machine(open_app: OpenApp) -> None:
    app = open_app()
    for count in (0, 1, 4, 8, 16):
        devices = (*(gpu(number) for number in range(count)), cpu())
        rows = [each.id for each in devices] if count <= 8 else [gpu(3).id]
        for height in (800, SMALL) if count == 4 else (800,):
            show(app, *devices, height=height)
            assert in_sight(app.form, app.form.start_button, app.devices)
            assert in_sight(*(app.devices.row(each) for each in rows))
            assert rows_in_sight(app) >= 3
    before = rows_in_sight(app)
    assert not in_sight(app.devices.row(gpu(15).id))
    show(app, *devices, height=1300)
    assert in_sight(app.devices.row(gpu(15).id))
    assert rows_in_sight(app) > before + 1, "a taller window shows more runs and all devices"


def test_alarms_and_a_problem_move_no_control(open_app: OpenApp) -> None:
    app = open_app()
    show(app, *(gpu(number) for number in range(4)), cpu())
    controls = (app.form.start_button, app.form.strategy, app.form.name_row, app.devices)

    def places() -> list[QPoint]:
        settle()
        return [each.mapTo(app.window, QPoint()) for each in controls]

    before = places()
    app.alarms.show_snapshot(eight_gpus())
    assert app.alarms.isVisible()
    assert places() == before
    assert rows_in_sight(app) >= 2
    show(app, *eight_gpus().devices)
    app.form.devices.chips[device_states.OTHERS].click()
    settle()
    assert app.form.devices.problem_note.problem
    assert in_sight(app.alarms, app.form.start_button)
    assert rows_in_sight(app) >= 3


def test_what_is_rarely_wanted_takes_no_room(open_app: OpenApp) -> None:
    """The search of the runs, and the advanced part of the form, which scrolls."""
    app = open_app(gpu(0), cpu())
    show(app, gpu(0), cpu())
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
