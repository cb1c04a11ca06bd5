"""Presets in the run form: kept, listed, loaded, deleted, and what cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from PySide6.QtGui import QAction, QGuiApplication
from PySide6.QtWidgets import QInputDialog, QMessageBox
from pytestqt.qtbot import QtBot

from engine.facts.equivalent_command import train_command
from engine.spec import presets
from engine.spec.run_spec import RunSpec
from gui.run_form.run_form import RunForm
from tests.gui.conftest import Patch
from tests.gui.save_dialog_user import SaveDialogUser
from tests.support.sentences import sentence

SPEC = RunSpec(
    recipe="digits",
    strategy="torch/ddp",
    devices=("cpu:0", "cpu:1"),
    batch_size=96,
    epochs=3,
    learning_rate=3e-4,
    optimizer="sgd",
    momentum=0.5,
    settings={"width": 8},
)


@pytest.fixture
def form(qtbot: QtBot) -> RunForm:
    form = RunForm()
    qtbot.addWidget(form)
    form.show()
    return form


def entries(form: RunForm) -> dict[str, QAction]:
    form.presets.fill()
    return {action.text(): action for action in form.presets.menu().actions()}


def answer(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(QInputDialog, "getText", lambda *_: (name, True))
    monkeypatch.setattr(QMessageBox, "exec", lambda _: QMessageBox.StandardButton.Yes)


def test_what_is_saved_is_listed_and_loads_the_same_settings(
    form: RunForm, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    form.load(SPEC)
    answer(monkeypatch, "R&D")
    with qtbot.waitSignal(form.message):
        entries(form)["Save as…"].trigger()
    form.load(replace(SPEC, epochs=1, batch_size=8))
    entries(form)["R&&D"].trigger()
    assert form.spec() == SPEC


def test_a_name_that_cannot_be_one_is_refused_in_words(form: RunForm, monkeypatch: Patch) -> None:
    answer(monkeypatch, "a/b")
    form.presets.save_as()
    assert "cannot hold '/'" in form.note.text()
    assert presets.names() == []


def test_nothing_wrong_is_saved(form: RunForm) -> None:
    widget = form.field("epochs").widget
    widget.setText("x")
    assert not entries(form)["Save as…"].isEnabled()
    assert not form.copy_button.isEnabled()


def test_an_unreadable_preset_is_listed_and_says_why(form: RunForm) -> None:
    presets.save("good", SPEC)
    presets.path_of("bad").write_text("run = [")
    listed = entries(form)
    assert "good" in listed
    listed["⚠ bad (cannot be read)"].trigger()
    assert str(presets.path_of("bad")) in form.note.text()
    assert form.spec() != SPEC


def test_deleting_asks_and_then_it_is_gone(form: RunForm, monkeypatch: pytest.MonkeyPatch) -> None:
    presets.save("old", SPEC)
    monkeypatch.setattr(QMessageBox, "exec", lambda _: QMessageBox.StandardButton.No)
    form.presets.delete("old")
    assert presets.names() == ["old"]
    answer(monkeypatch, "")
    form.presets.delete("old")
    assert presets.names() == []


def test_any_file_can_be_loaded_and_says_what_does_not_suit(form: RunForm, tmp_path: Path) -> None:
    file = tmp_path / "elsewhere.toml"
    presets.write(
        file,
        replace(SPEC, devices=("GPU-far",), strategy="jax/pmap", settings={"width": 8, "hat": 1}),
    )
    form.presets.load(file)
    assert sentence("gpus-of-preset-are-not-here") in form.note.text()
    assert "jax/pmap" in form.note.text()
    assert "hat" in form.note.text()
    spec = form.spec()
    assert (spec.devices, spec.batch_size, spec.settings) == (("cpu:0",), 96, {"width": 8})


def test_a_recipe_that_has_gone_is_said(form: RunForm, tmp_path: Path) -> None:
    gone = str(tmp_path / "gone.py")
    presets.save("old", replace(SPEC, recipe=gone, settings={"width": 8}))
    entries(form)["old"].trigger()
    assert f"There is no recipe file {gone}" in form.recipe_note.problem
    assert "width" not in form.note.text(), "its settings are unknown"
    assert not form.start_button.isEnabled()


def test_a_folder_that_takes_no_preset_is_said_in_words(form: RunForm, monkeypatch: Patch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    answer(monkeypatch, "mine")
    monkeypatch.setattr(Path, "replace", refuse)
    form.presets.save_as()
    assert (
        sentence("cannot-be-written-permission-denied", path_of=presets.path_of("mine"))
        in form.note.text()
    )
    assert "Errno" not in form.note.text()
    assert list(presets.folder().iterdir()) == [], "nothing is left lying about"


def test_a_file_gets_its_ending(form: RunForm, tmp_path: Path, qtbot: QtBot) -> None:
    form.load(SPEC)
    with SaveDialogUser(str(tmp_path / "mine")) as saver, qtbot.waitSignal(form.message) as said:
        form.presets.save_file()
    assert saver.questions == []
    assert presets.read(tmp_path / "mine.toml") == SPEC
    assert str(tmp_path / "mine.toml") in said.args[0]


def test_the_command_is_copied(form: RunForm) -> None:
    form.load(SPEC)
    form.copy_button.click()
    assert QGuiApplication.clipboard().text() == train_command(SPEC)
