"""A new recipe is written and shown; a check says what it has found, with the place in the file."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QMessageBox, QWidget
from pytestqt.qtbot import QtBot

from engine.spec.run_spec import RunSpec
from gui.bridge.background import Background
from gui.bridge.files.editor import Place
from gui.bridge.files.recipe_tools import CheckResult, recipe_kinds
from gui.recipe_controller import RecipeController
from gui.run_form.run_form import RunForm


class Scene:
    """A controller with its window, and what it said and opened."""

    def __init__(self, qtbot: QtBot) -> None:
        self.window, self.form = QWidget(), RunForm()
        qtbot.addWidget(self.window)
        qtbot.addWidget(self.form)
        self.background = Background()
        self.opened: list[Place] = []
        self.said: list[str] = []
        self.controller = RecipeController(
            self.form, self.background, self.opened.append, self.window
        )
        self.controller.message.connect(self.said.append)

    def box(self) -> QMessageBox:
        return self.window.findChildren(QMessageBox)[-1]


@pytest.fixture
def scene(qtbot: QtBot, traindeck_home: Path) -> Iterator[Scene]:
    scene = Scene(qtbot)
    yield scene
    scene.background.finish()


@pytest.mark.parametrize("kind", recipe_kinds())
def test_a_new_recipe_is_shown_in_the_form(scene: Scene, tmp_path: Path, kind: str) -> None:
    file = tmp_path / "mine.py"
    scene.form.heading.kind.script.setChecked(True)
    scene.controller.write(file, kind)
    assert not scene.form.is_script
    spec = scene.form.spec()
    assert spec.recipe == str(file)


def test_a_recipe_that_cannot_be_written_is_said(scene: Scene, tmp_path: Path) -> None:
    scene.controller.write(tmp_path / "no" / "mine.py", "torch")
    assert "was not written" in scene.said[-1]


def test_a_failed_check_says_why_and_opens_the_place(scene: Scene) -> None:
    result = CheckResult(
        "/home/me/net.py", problem="<b>Wrong</b> shape.", where="/home/me/net.py:7"
    )
    scene.controller.show_result(result)
    box = scene.box()
    assert box.text() == "<b>Wrong</b> shape."
    next(each for each in box.buttons() if "editor" in each.text()).click()
    assert scene.opened == [Place(Path("/home/me/net.py"), 7)]
    box.close()


def test_a_check_says_what_was_found(scene: Scene) -> None:
    result = CheckResult(
        "digits", ok=True, notices=("The loss is a sum.",), parameters=1234, loss=2.3
    )
    scene.controller.show_result(result)
    text = scene.box().informativeText()
    assert "The loss is a sum." in text
    assert "1,234" in text
    assert "2.3" in text
    scene.box().close()


def test_scripts_and_forms_with_problems_are_not_checked(scene: Scene) -> None:
    scene.form.field("epochs").set_value("x")
    scene.controller.check()
    assert "problems" in scene.said[-1]
    scene.form.heading.kind.script.setChecked(True)
    scene.controller.check()
    assert "only recipes" in scene.said[-1]


@pytest.mark.usefixtures("processes")
def test_a_recipe_that_is_refused_is_said(scene: Scene, tmp_path: Path, qtbot: QtBot) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import torch\ndef model(): ...\ndef datasets(): ...\n")
    scene.form.open_path(str(file))
    spec = scene.form.spec()
    file.unlink()
    with qtbot.waitSignal(scene.controller.recipe_check.checked) as told:
        scene.controller.recipe_check.start(spec)
    assert "no recipe file" in told.args[0].problem
    scene.box().close()


def test_a_second_click_ends_the_check_and_shows_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    def try_recipe(engine: object, spec: RunSpec, cancelled: threading.Event) -> CheckResult:
        assert cancelled.wait(60.0)
        return CheckResult(spec.recipe, problem="It was interrupted.")

    monkeypatch.setattr("engine.interface.recipes.try_recipe", try_recipe)
    check = scene.controller.recipe_check
    running: list[bool] = []
    check.running.connect(running.append)
    for _ in range(2):  # what was stopped once is not stopped for ever
        with qtbot.assertNotEmitted(check.checked):
            scene.controller.check()
            assert check.is_checking
            scene.controller.check()
            assert "being stopped" in scene.said[-1]
            qtbot.waitUntil(lambda: not check.is_checking)
    assert running == [True, False, True, False]
