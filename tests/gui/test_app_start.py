"""How the window starts, what it remembers for the next one, and how it ends."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.messages.events import RunEnded
from gui.app import NO_DISPLAY, run
from gui.bridge import template_keeper
from gui.run_form.environment.environment_row import EnvironmentRow
from gui.window.application import has_display
from gui.window.body import DEFAULT_WIDTH
from gui.window.main_window import MainWindow
from tests.gui.conftest import OpenApp, Patch, Record
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
from collections.abc import Iterator
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


def test_a_window_is_styled_once_it_is_whole_and_asks_before_it_ends_a_creation(
    open_app: OpenApp, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    sheets: list[str] = []
    asked: list[EnvironmentRow] = []

    class Watched(MainWindow):
        def __init__(self, *arguments: Any) -> None:
            sheets.append(qapp.styleSheet())
            super().__init__(*arguments)

    def ask_once(row: EnvironmentRow) -> bool:
        asked.append(row)
        return len(asked) == 1

    monkeypatch.setattr("gui.app.MainWindow", Watched)
    monkeypatch.setattr(EnvironmentRow, "asks_before_close", ask_once)
    app = open_app()
    assert sheets == [""]
    assert qapp.styleSheet()
    app.window.close()
    assert app.window.isVisible()
    assert asked == [app.form.environment]
    app.window.close()
    assert not app.window.isVisible()


def test_run_layout_and_theme_are_remembered(open_app: OpenApp, record: Record) -> None:
    for each in (record(), record()):
        each.begin()
        each.add(RunEnded("finished", ""))
    app = open_app()
    assert app.controls.headline.title.text().endswith("#2"), "the newest"
    app.open("1")
    themes: list[str] = []
    app.theme.changed.connect(lambda theme: themes.append(theme.name))

    def ticked() -> list[str]:
        entries = app.window.theme_choices
        return [choice for choice, entry in entries.items() if entry.isChecked()]

    assert ticked() == ["system"]
    app.window.toggle_theme.trigger()
    app.controls.theme_clicked.emit()
    for _ in range(2):
        app.window.theme_choices["dark"].trigger()
        assert ticked() == ["dark"]
    assert themes == ["dark", "light", "dark"]
    window = app.window
    window.resize(1300, 703)
    window.body.drag_to(401)
    window.show_log()
    window.bottom.show_page(app.events)
    window.fold_panel.trigger()
    window.show_page("runs")
    window.body.fold(False)
    window.close()

    app = open_app()
    window = app.window
    assert app.controls.headline.title.text().endswith("#1")
    assert (app.theme.current.name, ticked()) == ("dark", ["dark"])
    assert window.height() == 703
    window.resize(1300, 703)  # the screen of the tests is small
    QApplication.processEvents()
    assert window.body.column_width == 401
    assert window.bottom.page is app.events
    assert window.bottom.fold == "folded"
    assert not window.body.is_folded
    window.show_page("runs")
    assert not window.body.is_folded
    window.reset_layout.trigger()
    assert window.body.is_folded
    assert window.body.column_width == DEFAULT_WIDTH
    assert window.bottom.page is app.log
    assert window.bottom.fold == "folded", "the first row of plots needs the room"


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
    processes: None, templates: TemplateDouble, qapp: QApplication, qtbot: QtBot, monkeypatch: Patch
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
