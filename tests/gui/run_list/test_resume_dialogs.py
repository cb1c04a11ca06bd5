"""Resuming a run, and the dialogs where the user must decide."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QMessageBox, QWidget
from pytestqt.qtbot import QtBot

from engine.client import RunInfo
from engine.interface.local_engine import LocalEngine
from engine.messages.events import RecipeVersion
from engine.runs.checkpoints.checkpoint_files import CheckpointInfo, FileRecord, Manifest, Position
from engine.runs.run_state import RunState, RunStatus
from engine.spec.run_spec import RunSpec
from gui.bridge.background import Background
from gui.bridge.engine_client import EngineClient, ResumeRequest
from gui.run_form.run_form import RunForm
from gui.run_list.checkpoint_dialog import CheckpointDialog
from gui.run_list.resume_dialogs import ResumeDialogs
from tests.support.sentences import sentence

SPEC = RunSpec(recipe="digits", strategy="torch/ddp", devices=("cpu:0", "cpu:1"), epochs=150)
RUN = RunInfo("7", Path("7"), SPEC, RunStatus(step=1200), RunState.STOPPED, "")


def checkpoint(step: int, kinds: tuple[str, ...] = (), **metrics: float) -> CheckpointInfo:
    manifest = Manifest(
        position=Position(epoch=step // 10, batch=0, step=step),
        strategy="torch/single",
        replicas=1,
        saved=1.0,
        files={"state": FileRecord(2048, "")},
        kinds=kinds,
        metrics={f"validation/{name}": value for name, value in metrics.items()},
    )
    return CheckpointInfo(Path(f"step-{step}"), manifest)


CHECKPOINTS = [checkpoint(10, ("epochs",), accuracy=0.5), checkpoint(1200, ("epochs", "best"))]


class Surroundings:
    """A ResumeController with its window and form, and what it requests of the engine."""

    def __init__(self, background: Background, qtbot: QtBot) -> None:
        self.window = QWidget()
        qtbot.addWidget(self.window)
        self.window.show()
        self.form = RunForm(self.window)
        self.controller = EngineClient(background)
        self.resume_dialogs = ResumeDialogs(self.controller, self.form, self.window)

    def dialog(self) -> Any:
        (found,) = self.window.findChildren(QDialog)
        return found


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ResumeRequest]:
    requests: list[ResumeRequest] = []
    monkeypatch.setattr(EngineClient, "resume", lambda _, request: requests.append(request))
    return requests


@pytest.fixture
def around(qtbot: QtBot, asked: list[ResumeRequest]) -> Iterator[Surroundings]:
    background = Background()
    yield Surroundings(background, qtbot)
    background.finish()


def test_resume_uses_the_newest_one(around: Surroundings, asked: list[ResumeRequest]) -> None:
    around.resume_dialogs.resume("7")
    assert asked == [ResumeRequest("7")]


def test_with_changes_the_form_asks_for_them(
    around: Surroundings, asked: list[ResumeRequest], qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        EngineClient,
        "list_checkpoints",
        lambda self, run_id: self.checkpoints_listed.emit(RUN, CHECKPOINTS),
    )
    around.resume_dialogs.continue_with_changes("7")
    dialog = around.dialog()
    assert sentence("change-settings-in-form") in dialog.note.text()
    dialog.table.setCurrentItem(dialog.table.topLevelItem(1))
    dialog.accept()
    assert asked == []
    assert around.form.heading.title.text() == "RESUME RUN 7"
    origin = around.form.heading.origin.text()
    assert origin == sentence("from-step-of-epochs-done-points")
    with qtbot.waitSignal(around.form.continue_requested) as wanted:
        around.form.start_button.click()
    assert wanted.args == [ResumeRequest("7", CHECKPOINTS[0].folder, SPEC)]


def test_a_fork_fills_the_form_with_its_checkpoint_for_a_new_run(
    around: Surroundings, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        EngineClient,
        "list_checkpoints",
        lambda self, run_id: self.checkpoints_listed.emit(RUN, CHECKPOINTS),
    )
    around.resume_dialogs.fork("7", "step-10")
    assert around.window.findChildren(QDialog) == []
    with qtbot.waitSignal(around.form.continue_requested) as wanted:
        around.form.start_button.click()
    (request,) = wanted.args
    assert request.as_new
    assert (request.run_id, request.checkpoint) == ("7", CHECKPOINTS[0].folder)


def test_a_request_for_one_run_does_not_affect_another(
    around: Surroundings, asked: list[ResumeRequest], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checkpoints are listed in the background: another request may come before the result."""
    monkeypatch.setattr(EngineClient, "list_checkpoints", lambda *_: None)
    around.resume_dialogs.continue_with_changes("7")
    around.resume_dialogs.resume_from_older("8")
    around.controller.checkpoints_listed.emit(RUN, CHECKPOINTS)
    around.dialog().accept()
    assert asked == []
    assert around.form.heading.title.text() == "RESUME RUN 7"


@pytest.mark.parametrize("yes", [True, False])
def test_a_damaged_checkpoint_is_named_and_the_previous_one_offered(
    around: Surroundings, asked: list[ResumeRequest], yes: bool
) -> None:
    request = ResumeRequest("7", spec=SPEC)
    around.controller.checkpoint_unusable.emit(request, "step-20", Path("checkpoints/step-10"))
    box = around.dialog()
    assert "step-20" in box.text()
    assert "damaged" in box.text()
    assert "step-10?" in box.text()
    button = QMessageBox.StandardButton.Yes if yes else QMessageBox.StandardButton.No
    QTest.mouseClick(box.button(button), Qt.MouseButton.LeftButton)
    again = request._replace(checkpoint=Path("checkpoints/step-10"))
    assert asked == ([again] if yes else [])


@pytest.mark.parametrize(
    ("button", "key", "version"),
    [
        ("As it &was", Qt.Key.Key_Return, RecipeVersion.AS_IT_WAS),
        ("As it is &now", Qt.Key.Key_Space, RecipeVersion.AS_IT_IS_NOW),
        ("As it &was", Qt.Key.Key_Escape, None),
    ],
)
def test_if_the_recipe_has_changed_the_user_says_by_keyboard_which_one_goes_on(
    around: Surroundings,
    asked: list[ResumeRequest],
    qtbot: QtBot,
    button: str,
    key: Qt.Key,
    version: RecipeVersion | None,
) -> None:
    request = ResumeRequest("7", spec=SPEC)
    around.controller.recipe_changed.emit(request, "mine.py: 3 lines changed, nets.py: new")
    box = around.dialog()
    assert "mine.py: 3 lines changed\nnets.py: new\n" in box.text()
    qtbot.waitUntil(lambda: box.focusWidget() is not None)
    assert box.focusWidget().text() == "As it &was"
    for _ in box.buttons():
        if box.focusWidget().text() != button:
            QTest.keyClick(box.focusWidget(), Qt.Key.Key_Tab)
    QTest.keyClick(box.focusWidget(), key)
    assert asked == ([request._replace(recipe=version)] if version else [])
    assert not box.isVisible()


def test_the_reason_is_shown(around: Surroundings, asked: list[ResumeRequest]) -> None:
    around.controller.resume_refused.emit("7", "The recipe is gone.")
    assert around.dialog().text() == "The recipe is gone."
    assert not asked


def test_an_older_checkpoint_is_chosen_from_a_list(
    around: Surroundings, asked: list[ResumeRequest], qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gui.bridge.machines.machines.get_run", lambda _: RUN)
    monkeypatch.setattr(LocalEngine, "list_checkpoints", lambda *_: CHECKPOINTS)
    with qtbot.waitSignal(around.controller.checkpoints_listed):
        around.resume_dialogs.resume_from_older("7")
    dialog = around.dialog()
    assert isinstance(dialog, CheckpointDialog)
    table = dialog.table
    captions = [table.headerItem().text(column) for column in range(table.columnCount())]
    assert captions == ["Step", "Epochs done", "Kind", "Saved", "Size", "Val accuracy"]
    rows = [table.topLevelItem(row) for row in range(table.topLevelItemCount())]
    texts = [[row.text(column) for column in (0, 1, 2, 4, 5)] for row in rows if row]
    assert texts == [
        ["1,200", "120", "epochs, best", "2.0 KiB", "–"],
        ["10", "1", "epochs", "2.0 KiB", "50.0 %"],
    ]
    QTest.keyClick(table, Qt.Key.Key_Down)
    QTest.keyClick(dialog, Qt.Key.Key_Return)
    assert asked == [ResumeRequest("7", Path("step-10"))]


def test_cancelling_asks_for_nothing(around: Surroundings, asked: list[ResumeRequest]) -> None:
    around.controller.checkpoints_listed.emit(RUN, CHECKPOINTS)
    cancel = around.dialog().buttons.button(QDialogButtonBox.StandardButton.Cancel)
    QTest.mouseClick(cancel, Qt.MouseButton.LeftButton)
    assert not asked


def test_a_run_without_checkpoints_says_so(around: Surroundings) -> None:
    around.controller.checkpoints_listed.emit(RUN, [])
    assert "no checkpoint" in around.dialog().text()


def test_a_run_without_checkpoints_starts_from_the_beginning_with_changes(
    around: Surroundings, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        EngineClient, "list_checkpoints", lambda self, _: self.checkpoints_listed.emit(RUN, [])
    )
    around.resume_dialogs.continue_with_changes("7")
    form = around.form
    assert form.heading.origin.text() == sentence("from-beginning-there-is-no-checkpoint")
    assert not form.heading.as_new.isVisibleTo(form)
    form.field("epochs").set_value(9)
    form.copy_command()
    assert QGuiApplication.clipboard().text() == "python main.py resume 7 --epochs 9"
    with qtbot.waitSignal(form.continue_requested) as wanted:
        form.start_button.click()
    assert wanted.args == [ResumeRequest("7", None, msgspec.structs.replace(SPEC, epochs=9))]
