"""A sweep from the form to the best settings, in a window over real runs and over made ones."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from engine.sweeps import sweep as sweeps
from engine.system import paths
from tests.gui.conftest import OpenApp
from tests.support.made_sweeps import make_sweep
from tests.support.runs import delete_folder

LONG = 300_000


@pytest.mark.nightly
@pytest.mark.usefixtures("processes")
def test_a_sweep_is_made_stopped_resumed_and_used(open_app: OpenApp, qtbot: QtBot) -> None:
    app = open_app()
    app.form.field("epochs").set_value(1)
    app.form.sweep_button.click()
    dialog = app.rooms.sweeps.dialog
    dialog.ranges["learning_rate"].line.setText("1e-3..1e-1:log")
    dialog.ranges["width"].line.setText("16,32")
    dialog.options["trials"].set_value(3)
    with qtbot.waitSignal(app.rooms.sweeps.sweeps.started, timeout=LONG):
        dialog.start.click()
    page = app.rooms.sweeps.page
    assert app.rooms.sweeps.dialog is None
    assert app.window.page == "sweeps"
    qtbot.waitUntil(lambda: not page.stop.isHidden(), timeout=LONG)
    assert app.window.page == "sweeps", "the first run does not take the page"
    page.stop.click()
    qtbot.waitUntil(lambda: not page.resume.isHidden() or _is_over(page), timeout=LONG)
    if not page.resume.isHidden():  # else it was quicker than the click
        page.resume.click()
    qtbot.waitUntil(lambda: _is_over(page), timeout=LONG)
    trials = page.shown.trials
    assert [each.state for each in trials] == ["finished"] * 3
    assert len({each.run for each in trials}) == 3
    page.use.click()
    best = page.shown.summary.best
    assert app.form.field("learning_rate").value() == pytest.approx(best.settings["learning_rate"])
    assert app.form.field("settings.width").value() == best.settings["width"]
    assert app.form.field("epochs").value() == 1


def _is_over(page: object) -> bool:
    shown = page.shown  # type: ignore[attr-defined]
    return shown is not None and shown.summary.state == "finished"


def test_what_is_no_recipe_cannot_be_swept(open_app: OpenApp, qtbot: QtBot) -> None:
    app = open_app()
    said = app.window.statusBar().currentMessage
    assert app.form.sweep_button.isEnabled()
    app.form.field("batch_size").set_value("many")
    assert not app.form.sweep_button.isEnabled()
    app.form.request_sweep()
    assert app.rooms.sweeps.dialog is None
    assert "Not started" in said()
    app.form.heading.kind.script.setChecked(True)
    assert not app.form.sweep_button.isVisible()
    app.window.sweep.trigger()
    assert "Scripts cannot be swept" in said()

    app.form.heading.kind.recipe.setChecked(True)
    app.form.field("batch_size").set_value(64)
    app.form.request_sweep()
    dialog = app.rooms.sweeps.dialog
    paths.private_folder(sweeps.FOLDER).rmdir()
    (paths.home() / sweeps.FOLDER).write_text("in the way")
    dialog.ranges["width"].line.setText("16,32")
    with qtbot.waitSignal(app.rooms.sweeps.sweeps.refused, timeout=LONG):
        dialog.start.click()
    assert dialog.isVisible()
    assert sweeps.FOLDER in dialog.plan.text()
    dialog.reject()


def test_two_windows_show_one_sweep_and_open_its_runs(open_app: OpenApp, qtbot: QtBot) -> None:
    make_sweep(3, trials=4)
    apps = [open_app(), open_app(beside=True)]
    for app in apps:
        app.window.show_page("sweeps")
    pages = [app.rooms.sweeps.page for app in apps]
    qtbot.waitUntil(lambda: all(each.shown is not None for each in pages), timeout=LONG)
    assert [each.progress.text() for each in pages] == ["stopped, 3 of 4"] * 2
    delete_folder(paths.run_folder("2"))
    pages[1].table.point_to(1)
    QTest.keyClick(pages[1].table, Qt.Key.Key_Return)
    assert app.window.statusBar().currentMessage() == "Run 2 was deleted."
    pages[1].table.point_to(2)
    QTest.keyClick(pages[1].table, Qt.Key.Key_Return)
    assert app.run_list.watched == "3"
    assert app.window.page == "run"
    app.window.show_page("sweeps")
    make_sweep(1, with_runs=False)
    qtbot.waitUntil(lambda: all(each.list.count() == 2 for each in pages), timeout=LONG)
