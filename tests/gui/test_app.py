"""The whole window, put together as the user gets it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMainWindow
from pytestqt.qtbot import QtBot

from engine import client
from engine.client import CannotStart
from engine.files.log_tail import MAX_BYTES
from engine.messages.events import EpochEnded, Failure, RunEnded
from engine.processes.process import start_time
from engine.runs import device_queue
from engine.runs.device_queue import Ticket
from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState, RunStatus
from engine.spec.run_spec import RunSpec
from engine.spec.validation import Problem
from gui.app import NO_DISPLAY, run
from gui.bridge import template_keeper
from gui.bridge.liveness import Silence
from gui.bridge.telemetry_reader import TelemetryReader
from gui.run_form.environment.environment_row import EnvironmentRow
from gui.run_list.run_list_model import DETAIL
from gui.window.application import has_display
from gui.window.body import DEFAULT_WIDTH
from gui.window.main_window import MainWindow
from gui.window.window_layout import WindowLayout
from tests.gui.conftest import OpenApp, Record
from tests.support import device_states
from tests.support.template_double import TemplateDouble

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture
def templates(monkeypatch: pytest.MonkeyPatch) -> TemplateDouble:
    monkeypatch.setattr(template_keeper, "DELAY_MS", 20)
    return TemplateDouble(monkeypatch)


def test_without_a_display_it_names_the_command_line_before_qt_aborts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("gui.app.application", lambda _: pytest.fail("QApplication was made"))
    assert run(["main.py"]) == NO_DISPLAY != 0
    said = capsys.readouterr().err
    assert "python main.py train --help" in said
    assert said.count("\n") == 1


@pytest.mark.parametrize(
    ("platform", "environment", "there"),
    [
        ("linux", {}, False),
        ("linux", {"DISPLAY": ""}, False),
        ("linux", {"DISPLAY": ":0"}, True),
        ("linux", {"WAYLAND_DISPLAY": "wayland-0"}, True),
        ("linux", {"QT_QPA_PLATFORM": "offscreen"}, True),
        ("win32", {}, True),
        ("darwin", {}, True),
    ],
)
def test_which_machines_have_a_display(
    platform: str, environment: dict[str, str], there: bool
) -> None:
    assert has_display(platform, environment) is there


@pytest.mark.usefixtures("processes")
def test_the_window_imports_no_framework_and_touches_no_gpu(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from gui.app import AppController
from gui.style.theme import ThemeController
from gui.window.application import application
from tests.support import device_states
qt_app = application(["x"])
app = AppController(ThemeController(qt_app))
app.window.show()
for snapshot in device_states.last_minutes(3):
    app.telemetry.snapshot.emit(snapshot)
app.devices.open_detail(device_states.BUSY)
qt_app.processEvents()
frameworks = {"torch", "tensorflow", "keras"} & set(sys.modules)
assert not frameworks, frameworks
maps = Path("/proc/self/maps")
assert not maps.exists() or "libcuda" not in maps.read_text()
app.shut_down()
print("clean")
"""
    environment = os.environ | {"TRAINDECK_HOME": str(tmp_path), "QT_QPA_PLATFORM": "offscreen"}
    result = subprocess.run(
        [sys.executable, "-c", program],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.stdout.strip() == "clean", result.stderr


def test_the_parts_of_the_window_are_styled_once_they_are_together(
    open_app: OpenApp, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    sheets: list[str] = []

    class Watched(MainWindow):
        def __init__(self, *arguments: Any) -> None:
            sheets.append(qapp.styleSheet())
            super().__init__(*arguments)

    monkeypatch.setattr("gui.app.MainWindow", Watched)
    open_app()
    assert sheets == [""]
    assert qapp.styleSheet()


def test_an_empty_home_opens_a_window_that_says_what_to_do_and_its_own_errors(
    open_app: OpenApp, capsys: pytest.CaptureFixture[str]
) -> None:
    app = open_app()
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


def test_it_opens_with_an_active_run_else_the_one_that_was_shown_else_the_newest(
    open_app: OpenApp, record: Record
) -> None:
    active, over = record(), record()
    active.begin()
    over.begin()
    over.add(RunEnded("finished", ""))
    device_queue.enter(Ticket("1", os.getpid(), start_time(os.getpid()), (), ()))
    assert open_app().controls.headline.title.text().endswith("#1")
    active.add(RunEnded("stopped", ""))
    again = open_app()
    assert again.controls.headline.title.text().endswith("#1")
    again.settings.remove("window/run")
    assert open_app().controls.headline.title.text().endswith("#2")


def test_a_click_in_the_list_shows_the_other_run_and_nothing_of_the_first(
    open_app: OpenApp, record: Record, qtbot: QtBot
) -> None:
    first, second = record(), record()
    first.begin()
    first.add(RunEnded("failed", "It broke.", Failure(0, "cpu:0", 1, "", "", "", "the tail")))
    first.write_log(0, "from the first\n")
    second.begin()
    second.write_log(0, "from the second\n")
    app = open_app()
    assert app.controls.headline.title.text().endswith("#2")
    row = app.run_list.visualRect(app.run_list.model().index(1, 0)).center()
    QTest.mouseClick(app.run_list.viewport(), Qt.MouseButton.LeftButton, pos=row)
    assert app.controls.headline.title.text().endswith("#1")
    assert app.banner.isVisible()
    assert "from the first" in app.log.toPlainText()
    assert "from the second" not in app.log.toPlainText()
    app.open("2")
    assert not app.banner.isVisible()
    assert "from the first" not in app.log.toPlainText()


def test_two_windows_show_the_same_live_run(
    open_app: OpenApp, record: Record, qtbot: QtBot
) -> None:
    live = record()
    live.begin()
    apps = [open_app(), open_app(beside=True)]
    live.add(EpochEnded(1, 10, {"validation/accuracy": 0.75}))
    qtbot.waitUntil(lambda: all("75.0 %" in app.log.toPlainText() for app in apps))


def test_the_filter_works_on_log_and_events_and_a_long_log_says_where_its_beginning_is(
    open_app: OpenApp, record: Record
) -> None:
    run, long = record(), record()
    for each in (run, long):
        each.begin()
    run.write_log(0, "alpha\nbeta\n")
    words = f"line {'x' * 100}\n" * (MAX_BYTES // 100)
    long.write_log(0, f"Traceback (most recent call last):\n{words}")
    app = open_app()
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


def test_the_layout_is_remembered_and_can_be_reset(open_app: OpenApp) -> None:
    window = open_app().window
    window.resize(1300, 703)
    window.body.drag_to(401)
    window.fold_panel.trigger()
    window.show_page("runs")
    window.body.fold(False)
    window.close()
    again = open_app().window
    assert again.height() == 703
    again.resize(1300, 703)  # the screen of the tests is small
    QApplication.processEvents()
    assert again.body.column_width == 401
    assert again.bottom.fold == "open"
    assert not again.body.is_folded
    again.show_page("runs")
    assert not again.body.is_folded
    again.reset_layout.trigger()
    assert again.body.is_folded
    assert again.body.column_width == DEFAULT_WIDTH
    assert again.bottom.fold == "folded", "the first row of plots needs the room"


def test_the_window_stays_while_the_user_is_asked_whether_to_end_a_creation(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[EnvironmentRow] = []

    def ask_once(row: EnvironmentRow) -> bool:
        asked.append(row)
        return len(asked) == 1

    monkeypatch.setattr(EnvironmentRow, "asks_before_close", ask_once)
    app = open_app()
    app.window.close()
    assert app.window.isVisible()
    assert asked == [app.form.environment]
    app.window.close()
    assert not app.window.isVisible()


def test_the_open_tab_is_remembered_and_reset_too(open_app: OpenApp) -> None:
    app = open_app()
    app.window.show_log()
    assert app.log.isVisible()
    app.window.bottom.show_page(app.events)
    app.window.close()
    again = open_app()
    assert again.events.isVisible()
    assert not again.log.isVisible()
    again.window.reset_layout.trigger()
    again.window.fold_panel.trigger()
    assert again.log.isVisible()


def test_the_layout_of_an_older_window_opens(open_app: OpenApp) -> None:
    """It had docks; its size and its tab are kept, and damage is no layout."""
    app = open_app()
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


def test_the_theme_is_remembered_and_the_menu_shows_what_is_chosen(open_app: OpenApp) -> None:
    app = open_app()
    names: list[str] = []
    app.theme.changed.connect(lambda theme: names.append(theme.name))

    def ticked() -> list[str]:
        entries = app.window.theme_choices
        return [choice for choice, entry in entries.items() if entry.isChecked()]

    assert ticked() == ["system"]
    for _ in range(2):
        app.window.theme_choices["dark"].trigger()
        assert ticked() == ["dark"]
    app.window.toggle_theme.trigger()
    assert ticked() == ["light"]
    app.controls.theme_clicked.emit()
    assert names == ["dark", "light", "dark"]
    app = open_app()
    assert ticked() == ["dark"]
    assert app.theme.current.name == "dark"


def test_a_silent_run_is_grey_in_the_list_too(open_app: OpenApp, record: Record) -> None:
    record().begin()
    app = open_app()
    app.window_status.liveness.silence.emit(Silence(12.0))
    assert "silent for 12 s" in app.run_list.model().index(0, 0).data(DETAIL)


def test_the_helper_is_told_whether_the_window_can_be_seen(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    said: list[bool] = []
    monkeypatch.setattr(TelemetryReader, "set_watching", lambda _, watching: said.append(watching))
    app = open_app()
    assert said[-1:] == [True]
    app.window.showMinimized()
    qtbot.waitUntil(lambda: said[-1] is False)
    app.window.showNormal()
    qtbot.waitUntil(lambda: said[-1] is True)
    app.window.hide()
    assert said[-1] is False


def test_the_details_of_a_gpu_are_asked_for_while_they_are_open(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(TelemetryReader, "set_detail", lambda _, id: said.append(id))
    app = open_app()
    app.telemetry.snapshot.emit(device_states.eight_gpus())
    QTest.keyClick(app.devices.row(device_states.HOT), Qt.Key.Key_Return)
    app.devices.detail.reject()
    assert said == [device_states.HOT, ""]
    assert "in use by python of guest" in app.form.devices.chips[device_states.OTHERS].note


def test_the_framework_of_the_form_is_loaded(
    open_app: OpenApp, templates: TemplateDouble, qtbot: QtBot
) -> None:
    app = open_app()
    app.templates.begin()
    qtbot.waitUntil(lambda: "torch" in templates.running)
    app.form.recipe.choose("digits_keras")
    app.form.strategy.choose("tf/single")
    qtbot.waitUntil(lambda: "tensorflow" in templates.running)
    templates.running.clear()
    app.form.entered.emit()
    qtbot.waitUntil(lambda: "tensorflow" in templates.running)
    assert templates.starts == ["torch", "tensorflow", "tensorflow"]
    switch = app.window.keep_loaded
    assert switch.isChecked()
    switch.trigger()
    qtbot.waitUntil(lambda: not templates.running)
    assert not templates.is_on
    qtbot.waitUntil(lambda: not switch.isChecked())


def test_the_program_loads_a_framework_after_the_first_paint(
    processes: None,
    templates: TemplateDouble,
    qapp: QApplication,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    painted: list[int] = []
    monkeypatch.setattr("gui.app.application", lambda _: qapp)
    monkeypatch.setattr("gui.app.signal.signal", lambda *_: None)

    def execute(_: QApplication) -> int:
        (window,) = [each for each in qapp.topLevelWidgets() if isinstance(each, MainWindow)]
        window.first_painted.connect(lambda: painted.append(len(templates.starts)))
        qtbot.waitUntil(lambda: bool(templates.starts))
        window.repaint()
        window.close()
        qapp.aboutToQuit.emit()
        window.deleteLater()
        return 0

    monkeypatch.setattr(QApplication, "exec", execute)
    assert run(["main.py"]) == 0
    assert painted == [0]
    assert templates.starts == ["torch"]


def test_run_again_starts_the_same_settings_as_a_new_run(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    app = open_app()
    started: list[RunSpec] = []

    def start(spec: RunSpec, tags: tuple[str, ...], planning: object) -> str:
        started.append(spec)
        raise CannotStart([])

    monkeypatch.setattr(client, "start", start)
    spec = RunSpec(
        recipe="digits", strategy="torch/single", devices=("cpu:0",), epochs=3, name="mine"
    )
    info = RunInfo("1", Path(), spec, RunStatus(), RunState.FINISHED, "")
    app.controls.run_again_clicked.emit(info)
    qtbot.waitUntil(lambda: started == [spec])
    assert app.form.field("epochs").value() == 3
    assert app.controls.resume_more.menu().actions()[-1].text() == "Run again"


def test_a_run_that_has_started_is_no_longer_starting(
    open_app: OpenApp, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    app = open_app()
    bar = app.window.statusBar()

    def start(*_: object) -> str:
        raise CannotStart([Problem("epochs", "Too many.")])

    monkeypatch.setattr(client, "start", start)
    app.form.start()
    assert bar.currentMessage() == "Starting the run…"
    qtbot.waitUntil(lambda: app.form.field("epochs").problem == "Too many.")
    assert bar.currentMessage() == ""
