"""The whole window, put together as the user gets it: one for all tests here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMainWindow
from pytestqt.qtbot import QtBot

from engine import client
from engine.client import CannotStart
from engine.files.log_tail import MAX_BYTES
from engine.messages.events import EpochEnded, Failure, RunEnded
from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState, RunStatus
from engine.spec.run_spec import RunSpec
from engine.spec.validation import Problem
from gui.app import AppController
from gui.bridge.liveness import Silence
from gui.run_list.run_list_model import DETAIL
from gui.window.body import DEFAULT_WIDTH
from gui.window.window_layout import WindowLayout
from tests.gui.conftest import OpenApp, Record, StillTelemetry, window_of_module
from tests.gui.other_machine import as_before
from tests.support import device_states


@pytest.fixture(scope="module")
def opened(home: Path) -> Iterator[AppController]:
    """The window of all tests that need no window of their own."""
    with window_of_module(home, device_states.cpu()) as app:
        yield app


@pytest.fixture
def app(opened: AppController, qtbot: QtBot) -> Iterator[AppController]:
    with as_before(opened, qtbot):
        yield opened


def test_without_a_run_it_says_what_to_do_and_its_own_errors(
    app: AppController, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "Start run" in app.controls.headline.state.text()
    assert app.form.start_button.isEnabled()
    app.report_error(ValueError, ValueError("of ours"), None)
    assert "ValueError" in app.window.statusBar().currentMessage()
    assert "of ours" in capsys.readouterr().err
    bars = (app.rooms.run.plots.toolbar, app.rooms.runs.comparison.plots.toolbar)
    for bar in bars:
        bar.log_y.click()
    app.window.reset_layout.trigger()
    assert not any(bar.log_y.isChecked() for bar in bars), "the layout is also that of the plots"


def test_a_click_in_the_list_shows_the_other_run_and_nothing_of_the_first(
    app: AppController, record: Record, qtbot: QtBot
) -> None:
    first, second = record(), record()
    first.begin()
    first.add(RunEnded("failed", "It broke.", Failure(0, "cpu:0", 1, "", "", "", "the tail")))
    first.write_log(0, "from the first\n")
    second.begin()
    second.write_log(0, "from the second\n")
    app.engine_client.refresh_runs()
    qtbot.waitUntil(lambda: app.run_list.model().rowCount() == 2)
    app.open("2")
    row = app.run_list.visualRect(app.run_list.model().index(1, 0)).center()
    QTest.mouseClick(app.run_list.viewport(), Qt.MouseButton.LeftButton, pos=row)
    assert app.controls.headline.title.text().endswith("#1")
    assert app.banner.isVisible()
    assert "from the first" in app.log.toPlainText()
    assert "from the second" not in app.log.toPlainText()
    app.open("2")
    assert not app.banner.isVisible()
    assert "from the first" not in app.log.toPlainText()
    app.window_status.liveness.silence.emit(Silence(12.0))
    assert "silent for 12 s" in app.run_list.model().index(0, 0).data(DETAIL), "and grey"


def test_two_windows_show_the_same_live_run(
    app: AppController, open_app: OpenApp, record: Record, qtbot: QtBot
) -> None:
    live = record()
    live.begin()
    app.open(live.id)
    apps = [app, open_app(beside=True)]
    live.add(EpochEnded(1, 10, {"validation/accuracy": 0.75}))
    qtbot.waitUntil(lambda: all("75.0 %" in each.log.toPlainText() for each in apps))


def test_the_filter_works_on_log_and_events(app: AppController, record: Record) -> None:
    run, long = record(), record()
    for each in (run, long):
        each.begin()
    run.write_log(0, "alpha\nbeta\n")
    words = f"line {'x' * 100}\n" * (MAX_BYTES // 100)
    long.write_log(0, f"Traceback (most recent call last):\n{words}")
    app.open(long.id)
    assert "bytes skipped: see" in app.log.toPlainText()
    app.window.first_error.trigger()
    assert "log files" in app.window.statusBar().currentMessage()
    app.open(run.id)
    app.window.filter.setText("alpha")
    assert "beta" not in app.log.toPlainText()
    assert app.events.model().rowCount() == 0
    app.window.filter.setText("ATTEMPT")
    assert app.events.model().rowCount() == 1
    app.window.filter.clear()


def test_the_layout_of_an_older_window_opens(app: AppController) -> None:
    """It had docks; its size and its tab are kept, and damage is no layout."""
    window, settings = app.window, app.settings
    layout = WindowLayout(window, window.body, window.run_page, window.bottom, settings)
    settings.setValue("window/lower_panel", "open")
    for word in ("", "somewhere", 7):
        settings.setValue("window/tab", word)
        layout.restore()
        assert app.log.isVisible()
    window.resize(1301, 702)
    settings.setValue("window/geometry", window.saveGeometry())
    settings.setValue("window/state", QMainWindow().saveState(1))
    settings.setValue("window/tab", "events")
    settings.setValue("window/column_width", "wide")
    settings.setValue("window/folded_run", "perhaps")
    settings.setValue("window/lower_panel", 7)
    layout.restore()
    assert window.height() == 702
    window.resize(1301, 702)  # the screen of the tests is small
    QApplication.processEvents()
    assert window.bottom.page is app.events
    assert window.body.column_width == DEFAULT_WIDTH
    assert not window.body.is_folded


def test_the_helper_is_told_what_is_looked_at(app: AppController, qtbot: QtBot) -> None:
    telemetry = app.telemetry
    assert isinstance(telemetry, StillTelemetry)
    assert telemetry.watching
    app.window.showMinimized()
    qtbot.waitUntil(lambda: not telemetry.watching)
    app.window.showNormal()
    qtbot.waitUntil(lambda: telemetry.watching)
    app.window.hide()
    assert not telemetry.watching
    app.window.show()
    telemetry.snapshot.emit(device_states.eight_gpus())
    QTest.keyClick(app.devices.row(device_states.HOT), Qt.Key.Key_Return)
    app.devices.detail.reject()
    assert telemetry.details == [device_states.HOT, ""]
    assert "in use by python of guest" in app.form.devices.chips[device_states.OTHERS].note


def test_run_again_starts_the_same_settings_and_a_refusal_is_said_at_its_field(
    app: AppController, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    started: list[RunSpec] = []

    def start(spec: RunSpec, tags: tuple[str, ...], planning: object) -> str:
        started.append(spec)
        raise CannotStart([Problem("epochs", "Too many.")])

    monkeypatch.setattr(client, "start", start)
    spec = RunSpec(
        recipe="digits", strategy="torch/single", devices=("cpu:0",), epochs=3, name="mine"
    )
    info = RunInfo("1", Path(), spec, RunStatus(), RunState.FINISHED, "")
    app.controls.run_again_clicked.emit(info)
    qtbot.waitUntil(lambda: started == [spec])
    qtbot.waitUntil(lambda: app.form.field("epochs").problem == "Too many.")
    assert app.form.field("epochs").value() == 3
    assert app.controls.resume_more.menu().actions()[-1].text() == "Run again"
    app.form.field("epochs").set_value(4)
    app.form.start()
    assert app.window.statusBar().currentMessage() == "Starting the run…"
    qtbot.waitUntil(lambda: app.form.field("epochs").problem == "Too many.")
    assert app.window.statusBar().currentMessage() == "", "it is no longer starting"
