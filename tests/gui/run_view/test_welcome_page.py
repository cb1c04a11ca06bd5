"""The first start: what to do, and a run that begins with one click."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from engine import client
from engine.client import CannotStart
from engine.messages.commands import Stop
from engine.messages.heartbeat import last_beat
from engine.spec.validation import Problem
from engine.system import paths
from gui.run_view.welcome_page import first_spec
from tests.gui.conftest import OpenApp, Record
from tests.support import device_states


def test_the_first_spec_has_nothing_wrong_with_it() -> None:
    assert client.check(first_spec("cpu:0")) == []


@pytest.mark.usefixtures("processes")
def test_the_button_really_trains_and_the_page_makes_way(open_app: OpenApp, qtbot: QtBot) -> None:
    app = open_app()
    assert app.welcome_page.isVisible()
    assert not app.rooms.run.plots.isVisible()
    QTest.mouseClick(app.welcome_page.button, Qt.MouseButton.LeftButton)
    assert not app.welcome_page.button.isEnabled(), "a second click starts no second run"
    assert app.window.focusWidget() is app.run_list
    qtbot.waitUntil(lambda: app.rooms.run.plots.isVisible())
    assert not app.welcome_page.isVisible()
    qtbot.waitUntil(lambda: client.get_run("1").status.step > 0)
    assert last_beat(paths.run_folder("1")) > 0
    client.send("1", Stop(now=True))
    qtbot.waitUntil(lambda: client.get_run("1").state.is_over)
    qtbot.waitUntil(lambda: last_beat(paths.run_folder("1")) == 0.0)


def test_why_it_did_not_start_is_said_on_the_page(
    open_app: OpenApp, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> str:
        raise CannotStart([Problem("", "The disk is full.")])

    monkeypatch.setattr(client, "start", refuse)
    app = open_app()
    app.welcome_page.button.click()
    qtbot.waitUntil(lambda: "The disk is full." in app.welcome_page.note.text())
    assert app.welcome_page.button.isEnabled()
    app.telemetry.snapshot.emit(device_states.eight_gpus())
    assert "The disk is full." in app.welcome_page.note.text(), "a snapshot does not clear it"
    app.welcome_page.button.click()
    assert "The disk is full." not in app.welcome_page.note.text()


def test_it_takes_the_first_empty_gpu(open_app: OpenApp) -> None:
    app = open_app()
    assert app.welcome_page.device == "cpu:0"
    snapshot = device_states.eight_gpus()
    app.telemetry.snapshot.emit(snapshot)
    busy = {device_states.BUSY, device_states.OTHERS}
    [taken] = [each for each in snapshot.devices if each.id == app.welcome_page.device]
    assert taken.kind == "gpu"
    assert taken.id not in busy
    assert f"GPU {taken.label} ({taken.name})" in app.welcome_page.note.text()


def test_a_run_started_elsewhere_ends_the_first_start(
    open_app: OpenApp, record: Record, qtbot: QtBot
) -> None:
    app = open_app()
    record().begin()
    app.engine_client.refresh_runs()
    qtbot.waitUntil(lambda: not app.welcome_page.isVisible())
    assert app.controls.headline.title.text().endswith("#1")
