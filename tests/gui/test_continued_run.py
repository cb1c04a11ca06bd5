"""The run form while it is filled in for a run that goes on from a checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from engine.client import RunInfo
from engine.runs.checkpoints.checkpoint_files import CheckpointInfo, Manifest, Position
from engine.runs.run_state import RunState, RunStatus
from engine.spec.run_spec import RunSpec
from gui.bridge.engine_client import ResumeRequest
from gui.run_form.run_form import RunForm
from tests.support.recorded_runs import new_run_folder
from tests.support.sentences import sentence

SPEC = RunSpec(
    recipe="digits",
    strategy="torch/ddp",
    devices=("cpu:0", "cpu:1"),
    name="long",
    batch_size=64,
    epochs=5,
    seed=7,
    optimizer="sgd",
    momentum=0.9,
    settings={"dropout": 0.25},
)
RUN = RunInfo("7", Path("7"), SPEC, RunStatus(), RunState.FINISHED, "")
END = CheckpointInfo(
    Path("checkpoints/step-00000115"),
    Manifest(
        position=Position(5, 0, 115),
        strategy="torch/ddp",
        replicas=2,
        batch_size=64,
        parameters=10,
        saved=1.0,
        files={},
    ),
)


@pytest.fixture
def form(qtbot: QtBot) -> RunForm:
    """The form, with the settings of a finished run."""
    form = RunForm()
    qtbot.addWidget(form)
    form.show()
    form.continue_run(RUN, END)
    return form


def enter(form: RunForm, name: str, text: str) -> None:
    widget = form.field(name).widget
    widget.setFocus()
    widget.selectAll()
    QTest.keyClicks(widget, text)


def test_a_finished_run_wants_more_epochs_and_then_goes_on(form: RunForm, qtbot: QtBot) -> None:
    assert not form.start_button.isEnabled()
    assert "5 epochs are done" in form.field("epochs").problem
    enter(form, "epochs", "8")
    enter(form, "learning_rate", "1e-4")
    assert form.start_button.text() == "Resume run"
    with qtbot.waitSignal(form.continue_requested) as asked:
        QTest.mouseClick(form.start_button, Qt.MouseButton.LeftButton)
    wanted = replace(SPEC, epochs=8, learning_rate=1e-4)
    assert asked.args == [ResumeRequest("7", END.folder, wanted)]


def test_what_the_checkpoint_holds_stays_and_says_why(form: RunForm) -> None:
    assert not form.recipe.isEnabled()
    for name in ("seed", "optimizer"):
        field = form.field(name)
        assert not field.widget.isEnabled()
        assert field.value() == getattr(SPEC, name), "as it was, not the default"
        assert "start a new run" in field.widget.toolTip()
    enter(form, "momentum", "0")
    assert "cannot be switched" in form.field("momentum").problem


def test_nonsense_in_a_field_is_all_that_is_said_of_it(form: RunForm) -> None:
    for name in ("epochs", "momentum"):
        enter(form, name, "x")
        assert form.field(name).problem.endswith("number, not 'x'.")


def test_another_run_brings_its_own_values(form: RunForm) -> None:
    other = replace(SPEC, seed=8, optimizer="adamw", momentum=0.0, settings={})
    form.continue_run(RUN._replace(id="9", spec=other), END)
    assert form.heading.title.text() == "RESUME RUN 9"
    assert (form.field("seed").value(), form.field("optimizer").value()) == (8, "adamw")
    assert form.field("settings.dropout").value() == 0.1, "the default of the recipe"


def test_the_command_line_does_the_same(form: RunForm) -> None:
    enter(form, "epochs", "8")
    form.copy_command()
    assert QGuiApplication.clipboard().text() == (
        "python main.py resume 7 --checkpoint step-00000115 --epochs 8"
    )


def test_it_may_go_on_as_a_new_run(form: RunForm, qtbot: QtBot) -> None:
    form.continue_run(RUN._replace(status=RunStatus(step=200)), END)
    assert sentence("points-after-this-step-are-removed") in form.heading.origin.text()
    enter(form, "epochs", "8")
    form.heading.as_new.click()
    assert form.field("epochs").value() == 8, "what was entered stays"
    assert "Later points" not in form.heading.origin.text()
    form.copy_command()
    assert " --as-new-run --epochs 8" in QGuiApplication.clipboard().text()
    form.run_started("6")
    assert form.heading.title.text() == "RESUME RUN 7", "this one was not asked for yet"
    with qtbot.waitSignal(form.continue_requested) as asked:
        form.start()
    assert asked.args == [ResumeRequest("7", END.folder, replace(SPEC, epochs=8), as_new=True)]
    form.run_started("8")
    assert form.heading.title.text() == "NEW RUN"


@pytest.mark.parametrize("way", ["button", "settings of a run", "it has begun"])
def test_back_to_a_new_run(form: RunForm, qtbot: QtBot, way: str) -> None:
    match way:
        case "button":
            QTest.mouseClick(form.heading.new_run_button, Qt.MouseButton.LeftButton)
        case "settings of a run":
            form.load(SPEC)
        case _:
            form.run_started("6")
            assert form.heading.title.text() == "RESUME RUN 7", "that was another one"
            form.run_started("7")
    assert form.heading.title.text() == "NEW RUN"
    assert form.start_button.text() == "Start run"
    assert form.recipe.isEnabled()
    assert form.field("seed").widget.isEnabled()
    with qtbot.waitSignal(form.start_requested) as asked:
        QTest.mouseClick(form.start_button, Qt.MouseButton.LeftButton)
    assert asked.args == [replace(SPEC, name=""), ()]


MINE = """
import torch
def model(width: int = 8): ...
def datasets(): ...
"""


def test_the_form_shows_the_recipe_that_the_run_has_kept(tmp_path: Path, qtbot: QtBot) -> None:
    recipe = tmp_path / "mine.py"
    recipe.write_text(MINE)
    spec = replace(SPEC, recipe=str(recipe), settings={"width": 16})
    run = RUN._replace(folder=new_run_folder(spec), spec=spec)
    form = RunForm()
    qtbot.addWidget(form)
    recipe.write_text(MINE.replace("width: int = 8", "depth: int = 2, width: int = 8"))
    form.continue_run(run, END)
    assert [*form.advanced.settings] == ["width"]
    form.field("settings.width").set_value(32)
    QTest.mouseClick(form.heading.new_run_button, Qt.MouseButton.LeftButton)
    assert [*form.advanced.settings] == ["depth", "width"], "a new run trains the file"
    assert form.field("settings.width").value() == 32, "what was entered stays"

    recipe.unlink()
    form.continue_run(run, END)
    enter(form, "epochs", "8")
    with qtbot.waitSignal(form.continue_requested) as asked:
        form.start()
    assert asked.args == [ResumeRequest("7", END.folder, replace(spec, epochs=8))]
    form.field("settings.width").set_value(32)
    form.copy_command()
    assert "--set width=32" in QGuiApplication.clipboard().text()
