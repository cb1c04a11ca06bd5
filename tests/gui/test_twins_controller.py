"""Twin runs by click: from the form to the comparison of both."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.runs.run_notes import RunNotes, write_notes
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from gui.app import AppController
from tests.gui.conftest import OpenApp, Record
from tests.support.sentences import sentence

LONG = 300_000

TORCH = RunSpec(recipe="digits_keras", strategy="torch/keras_ddp", devices=("cpu:0",))
TF = RunSpec(recipe="digits_keras", strategy="tf/single", devices=("cpu:0",))


def test_only_a_keras_recipe_in_order_offers_a_twin_run(open_app: OpenApp) -> None:
    app = open_app()
    action = app.form.planning.twin
    assert action in app.window.run_menu.actions()
    assert app.window.run_menu.toolTipsVisible()
    assert not action.isEnabled()
    assert sentence("recipe-must-be-for-keras") in action.toolTip()
    app.form.recipe.choose("digits_keras")
    assert action.isEnabled()
    assert "same samples" in action.toolTip()
    app.form.field("batch_size").set_value("many")
    assert not action.isEnabled()
    assert "problems" in action.toolTip()
    app.form.heading.kind.script.setChecked(True)
    assert not action.isEnabled()
    assert "not a script" in action.toolTip()


def test_both_are_chosen_when_they_are_listed_and_what_is_noted_is_said(
    open_app: OpenApp, record: Record, qtbot: QtBot
) -> None:
    app = open_app()
    first, other = record(TORCH), record(TF)
    write_notes(first.folder, RunNotes(tags=("paper", "twin-2"), note="Twin: starts soon."))
    write_notes(other.folder, RunNotes(tags=("paper", "twin-1")))
    app.chosen.choose([])
    app.twins_controller.twins.started.emit(first.folder.name)
    assert app.window.page == "runs"
    qtbot.waitUntil(lambda: app.chosen.ids() == [first.folder.name], timeout=LONG)
    qtbot.waitUntil(lambda: _said(app) == "Twin: starts soon.", timeout=LONG)

    second = record(TF)
    write_notes(second.folder, RunNotes(tags=("paper", "twin-2")))
    write_notes(first.folder, RunNotes(tags=("paper", "twin-2"), note="mine\nTwin: equal."))
    app.engine_client.refresh_runs()
    pair = [first.folder.name, second.folder.name]
    qtbot.waitUntil(lambda: app.chosen.ids() == pair, timeout=LONG)
    qtbot.waitUntil(lambda: _said(app) == "Twin: equal.", timeout=LONG)
    assert app.runs_page.is_comparing
    app.chosen.choose([])  # the user compares something else: nothing takes it back
    app.engine_client.refresh_runs()
    with qtbot.waitSignal(app.engine_client.runs_listed, timeout=LONG):
        pass
    assert app.chosen.ids() == []


def test_a_refusal_is_said(open_app: OpenApp, qtbot: QtBot) -> None:
    app = open_app()
    recipe = catalog.recipe("digits")
    spec = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",))
    app.form.twin_requested.emit(spec, recipe, ())
    qtbot.waitUntil(lambda: "digits is a torch recipe" in _said(app), timeout=LONG)


@pytest.mark.nightly
@pytest.mark.usefixtures("processes")
def test_a_click_trains_both_and_says_how_far_they_differ(
    open_app: OpenApp, qtbot: QtBot, qapp: QApplication
) -> None:
    app = open_app()
    app.form.recipe.choose("digits_keras")
    app.form.field("steps").set_value(20)
    app.form.field("settings.dropout").set_value(0.0)
    app.form.planning.twin.trigger()
    qtbot.waitUntil(lambda: len(app.chosen.ids()) == 2, timeout=LONG)
    assert app.window.page == "runs"
    qtbot.waitUntil(lambda: "differ by at most" in _told(app), timeout=LONG)
    by_id = {info.id: info for info in app.run_list_panel.runs()}
    pair = [by_id[run_id].spec.strategy for run_id in app.chosen.ids()]
    assert pair == ["torch/keras_ddp", "tf/single"]
    assert app.runs_page.is_comparing


def _said(app: AppController) -> str:
    return app.window.statusBar().currentMessage()


def _told(app: AppController) -> str:
    return " ".join(info.notes.note for info in app.run_list_panel.runs())
