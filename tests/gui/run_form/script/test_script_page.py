"""The page for scripts: options as fields, the command they stand for, and its environment."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit
from pytestqt.qtbot import QtBot

from engine.environments.registry import Environment, Facts
from engine.spec.run_spec import RunSpec
from gui.bridge.machines.environments_there import EnvironmentsThere, _Listed
from gui.run_form.run_form import RunForm
from gui.run_form.script.command import name_of

SOURCE = """import argparse
p = argparse.ArgumentParser()
p.add_argument("--lr", type=float, default=0.1, help="the rate")
p.add_argument("--batch-size", type=int, default=32)
p.add_argument("--net", choices=["cnn", "mlp"], default="cnn")
p.add_argument("--amp", action="store_true")
p.add_argument("--data", required=True)
"""


@pytest.fixture
def script(tmp_path: Path) -> Path:
    folder = tmp_path / "my net"
    folder.mkdir()
    file = folder / "train.py"
    file.write_text(SOURCE)
    return file


@pytest.fixture
def form(qtbot: QtBot, script: Path) -> RunForm:
    form = RunForm()
    qtbot.addWidget(form)
    form.resize(300, 900)
    form.show()
    form.open_path(str(script))
    return form


def line(form: RunForm, name: str) -> QLineEdit:
    widget = form.field(name).widget
    assert isinstance(widget, QLineEdit)
    return widget


def spec_of(form: RunForm) -> RunSpec:
    spec = form.spec()
    assert spec is not None, [
        problem for each in form._problem_widgets().values()
        if (problem := getattr(each, "problem", ""))
    ]  # fmt: skip
    return spec


def test_a_file_that_is_no_recipe_shows_the_page_for_scripts(form: RunForm, script: Path) -> None:
    assert form.is_script
    assert form.script.currentText() == "my net/train.py"
    assert form.field("options.lr").isVisible()
    assert form.field("options.lr").widget.toolTip() == "<p>the rate</p>"
    assert not form.field("batch_size").isVisible()
    assert form.strategy.names()
    assert all(name.startswith("script/") for name in form.strategy.names())
    assert form.template is None, "a script imports its framework itself"


def test_an_option_that_the_script_needs_is_asked_for(form: RunForm) -> None:
    assert "needs this option" in form.field("options.data").problem
    assert form.spec() is None
    line(form, "options.data").setText("in")
    assert form.field("options.data").problem == ""
    assert spec_of(form).command == ("train.py", "--data", "in")


def test_options_and_further_arguments_become_the_command(form: RunForm, script: Path) -> None:
    line(form, "options.data").setText("my data")
    line(form, "options.lr").setText("3e-4")
    amp = form.field("options.amp").widget
    amp.setChecked(True)
    net = form.field("options.net").widget
    net.setCurrentText("mlp")
    form.command.arguments.set_value("--more 'a b'")
    spec = spec_of(form)
    assert spec.recipe == str(script)
    assert spec.is_script
    assert spec.command == (
        "train.py", "--lr", "0.0003", "--net", "mlp", "--amp", "--data", "my data", "--more", "a b",
    )  # fmt: skip
    shown = form.command.text.toPlainText()
    assert shown.endswith("train.py --lr 0.0003 --net mlp --amp --data 'my data' --more 'a b'")
    form.command.copy_button.click()
    assert QGuiApplication.clipboard().text() == shown


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("options.lr", "fast", "must be a number"),
        ("options.batch_size", "1.5", "must be a whole number"),
    ],
)
def test_nonsense_is_said_at_its_field(form: RunForm, name: str, text: str, words: str) -> None:
    line(form, "options.data").setText("in")
    line(form, name).setText(text)
    assert words in form.field(name).problem
    assert "(" not in form.field(name).problem, "the label is the name"
    assert form.spec() is None
    line(form, name).clear()
    assert form.field(name).problem == "", "an option may be left out"


def test_problems_of_the_environment_are_said_at_their_fields(form: RunForm) -> None:
    line(form, "options.data").setText("in")
    page = form.script_page
    page.working_folder.set_value("/nowhere/at/all")
    assert "no folder /nowhere/at/all" in page.working_folder.problem
    page.working_folder.set_value("relative")
    assert "no folder relative" in page.working_folder.problem
    page.working_folder.set_value("")
    form.command.arguments.set_value("'a")
    assert "quotation mark" in form.command.arguments.problem
    form.command.arguments.set_value("")
    page.resume_arguments.set_value("--resume '{latest}")
    assert "cannot be read" in page.resume_arguments.problem
    page.resume_arguments.set_value("--resume {latest}")
    assert spec_of(form).resume_arguments == "--resume {latest}"


def test_a_bad_name_of_a_variable_is_said_once(form: RunForm) -> None:
    line(form, "options.data").setText("in")
    variables = form.script_page.variables
    for values, secrets in (({"1A": "x"}, ()), ({}, ("1_TOKEN",))):
        variables.set_variables(values, secrets)
        variables.changed.emit()
        assert variables.problem.count("name of a variable") == 1
        assert form.spec() is None


def test_a_spec_comes_back_as_it_was_loaded(form: RunForm, script: Path, tmp_path: Path) -> None:
    spec = RunSpec(
        recipe=str(script),
        strategy="script/torchrun",
        devices=("cpu:0", "cpu:1"),
        command=(str(script), "--net=mlp", "--data", "x", "--batch-size", "32", "--odd", "7"),
        working_folder=str(tmp_path),
        variables={"OMP_NUM_THREADS": "2"},
        resume_arguments="--resume {latest}",
        output_figures=False,
        max_restarts=2,
    )
    form.load(spec)
    assert form.spec() == spec, "also in the order of its words"
    assert "2 processes" in form.strategy_note.text()
    line(form, "options.lr").setText("0.2")
    assert spec_of(form).command == (
        str(script), "--lr", "0.2", "--batch-size", "32", "--net", "mlp", "--data", "x", "--odd",
        "7",
    )  # fmt: skip
    form.load(RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",)))
    assert not form.is_script
    assert spec_of(form).command == ()


def test_modules_and_programs_keep_their_words(form: RunForm, script: Path) -> None:
    for command in (("-m", "train", "--data", "x"), ("python", "-u", "train.py", "--data", "x")):
        spec = RunSpec(
            recipe=str(script), strategy="script/single", devices=("cpu:0",), command=command
        )
        form.load(spec)
        assert spec_of(form).command == command
        line(form, "options.data").setText("y")
        assert spec_of(form).command == (*command[:-1], "y")


def test_secrets_are_hidden_and_said_not_to_be_stored(form: RunForm) -> None:
    line(form, "options.data").setText("in")
    variables = form.script_page.variables
    variables.add_button.click()
    row = variables.rows[0]
    assert QApplication.focusWidget() is row.name or not form.isActiveWindow()
    QTest.keyClicks(row.name, "WANDB_MODE")
    QTest.keyClicks(row.value, "offline")
    assert row.value.echoMode() is QLineEdit.EchoMode.Normal
    variables.add_button.click()
    secret = variables.rows[1]
    secret.name.setText("WANDB_API_KEY")
    secret.value.setText("abc")
    assert secret.value.echoMode() is QLineEdit.EchoMode.Password
    assert "WANDB_API_KEY" in variables.note_label.text()
    spec = spec_of(form)
    assert spec.variables == {"WANDB_MODE": "offline", "WANDB_API_KEY": "abc"}
    secret.stored.setChecked(True)
    assert spec_of(form).stored_variables == ("WANDB_API_KEY",)
    assert "WANDB_API_KEY" not in variables.note_label.text()
    secret.stored.setChecked(False)
    secret.value.clear()
    assert spec_of(form).secret_variables == ("WANDB_API_KEY",)
    secret.name.setText("1 2")
    assert "letters, digits and _" in variables.problem
    secret.name.setText("WANDB_MODE")
    assert "twice" in variables.problem
    secret.removed.emit()
    assert variables.problem == ""
    assert list(spec_of(form).variables) == ["WANDB_MODE"]


def test_the_environment_beside_the_script_is_proposed(form: RunForm, script: Path) -> None:
    choice = form.script_page.interpreter.choice
    assert choice.interpreter() == ""
    environment = script.parent / ".venv"
    (environment / "bin").mkdir(parents=True)
    python = environment / "bin" / "python"
    python.symlink_to(os.devnull)
    python.unlink()
    python.write_text("#!/bin/sh\n")
    python.chmod(0o700)
    (environment / "pyvenv.cfg").write_text("home = /usr/bin\nversion = 3.12.4\n")
    form.script.choose(str(script))
    line(form, "options.data").setText("in")
    assert choice.currentText() == ".venv · Python 3.12.4"
    assert spec_of(form).interpreter == str(python)
    assert form.command.text.toPlainText().startswith(".venv/bin/python train.py")
    choice.setCurrentIndex(0)
    choice.activated.emit(0)
    assert spec_of(form).interpreter == ""
    form.load(spec_of(form))
    assert spec_of(form).interpreter == "", "as the run that it was loaded from"


def test_only_settings_that_a_script_can_follow_are_shown(form: RunForm) -> None:
    for group in form.advanced.groups.values():
        group.heading.setChecked(True)
    assert form.field("max_restarts").isVisibleTo(form)
    for name in ("precision", "optimizer", "checkpoint_best", "seed", "workers_per_device"):
        assert not form.field(name).isVisibleTo(form), name
    form.heading.kind.recipe.setChecked(True)
    assert form.field("precision").isVisibleTo(form)


def test_a_script_with_calls_is_resumed_exactly(form: RunForm, script: Path) -> None:
    assert form.script_page.resume_arguments.refusal == ""
    assert form.strategy.strategy().name == "script/single"
    script.write_text("from traindeck import keep\n" + SOURCE)
    form._watch.check()
    assert "exactly" in form.script_page.resume_arguments.refusal
    for group in form.advanced.groups.values():
        group.heading.setChecked(True)
    assert form.field("checkpoint_best").isVisibleTo(form)
    assert not form.field("seed").isVisibleTo(form)


def test_a_changed_script_keeps_what_was_typed(form: RunForm, script: Path, qtbot: QtBot) -> None:
    line(form, "options.lr").setText("0.5")
    line(form, "options.data").setText("in")
    line(form, "options.batch_size").setText("64")
    script.write_text("def broken(:\n")
    form._watch.check()
    assert line(form, "options.lr").text() == "0.5", "it is being edited"
    script.write_text(SOURCE.replace("--batch-size", "--size") + "p.add_argument('--new')\n")
    form._watch.check()
    assert line(form, "options.lr").text() == "0.5"
    qtbot.waitUntil(form.field("options.new").isVisible)
    assert "batch-size" in form.recipe_note.text()
    assert spec_of(form).command == ("train.py", "--lr", "0.5", "--data", "in")


def test_without_a_script_the_form_asks_for_one(qtbot: QtBot) -> None:
    form = RunForm()
    qtbot.addWidget(form)
    QTest.mouseClick(form.heading.kind.script, Qt.MouseButton.LeftButton)
    assert form.is_script
    assert "Open file" in form.recipe_note.problem
    assert not form.edit_button.isEnabled()
    QTest.mouseClick(form.heading.kind.recipe, Qt.MouseButton.LeftButton)
    assert spec_of(form).strategy == "torch/single"


def test_each_kind_keeps_its_choices(form: RunForm) -> None:
    line(form, "options.data").setText("in")
    form.strategy.choose("script/torchrun")
    form.heading.kind.recipe.setChecked(True)
    form.strategy.choose("torch/ddp")
    form.heading.kind.script.setChecked(True)
    assert spec_of(form).strategy == "script/torchrun"
    assert spec_of(form).command == ("train.py", "--data", "in")
    form.heading.kind.recipe.setChecked(True)
    assert form.strategy.strategy().name == "torch/ddp"


def test_a_recipe_that_has_become_a_script_says_so(qtbot: QtBot, tmp_path: Path) -> None:
    form = RunForm()
    qtbot.addWidget(form)
    file = tmp_path / "mine.py"
    file.write_text("import torch\ndef model(): ...\ndef datasets(): ...\n")
    form.open_path(str(file))
    assert not form.is_script
    file.write_text("import torch\n")
    form._watch.check()
    assert "choose Script above" in form.recipe_note.problem
    assert form.spec() is None


def test_what_has_no_meaning_on_another_machine_is_locked_and_says_why(form: RunForm) -> None:
    folder = form.script_page.working_folder
    folder.set_value("/elsewhere")
    form.offer_machines({"gpus": True})
    form.machine.setCurrentIndex(1)
    assert "gpus" in folder.refusal
    assert not folder.widget.isEnabled()
    assert folder.value_or_default() == ""
    form.offer_machines({})  # it is not connected any more
    assert folder.value_or_default() == "/elsewhere"


def test_a_script_runs_with_a_python_of_the_machine(qtbot: QtBot, tmp_path: Path) -> None:
    there = EnvironmentsThere()
    form = RunForm(environments_there=there)
    qtbot.addWidget(form)
    (tmp_path / "train.py").write_text("print('loss: 1')")
    form.open_path(str(tmp_path / "train.py"))
    choice = form.script_page.interpreter.choice
    choice.set_by_user(True)
    choice.choose(sys.executable)
    form.offer_machines({"gpus": True})
    form.machine.setCurrentIndex(1)
    assert spec_of(form).interpreter == "", "the one of here is none of there"
    big = Environment("big", "/there/bin/python", facts=Facts("3.12.4"))
    there._take("gpus", _Listed([big]))
    shown = [choice.itemText(row) for row in range(choice.count())]
    assert shown == ["Traindeck's own on gpus", "big · Python 3.12.4"]
    choice.activated.emit(1)
    assert spec_of(form).interpreter == "/there/bin/python"
    form.copy_command()
    assert "--on gpus" in QGuiApplication.clipboard().text()
    assert "--env /there/bin/python" in QGuiApplication.clipboard().text()
    there._take("gpus", _Listed([], "gpus: The list is damaged."))
    assert choice.interpreter() == "/there/bin/python", "what is chosen stays"
    assert "damaged" in form.script_page.interpreter.note_label.text()
    form.remember()
    form.machine.setCurrentIndex(0)
    assert form.script_page.interpreter.note_label.text() == ""
    assert spec_of(form).interpreter == sys.executable, "as it was chosen here"


def test_a_python_of_elsewhere_does_not_come_with_a_script(form: RunForm, script: Path) -> None:
    line(form, "options.data").setText("in")
    spec = replace(spec_of(form), interpreter="/there/bin/python")
    form.load(spec, "gpus")  # which is not connected
    assert spec_of(form).interpreter == ""


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("/home/me/mine/train.py", "mine/train.py"),
        (f"/home/me/received/{'75be5e54' * 2}/train.py", "train.py"),
        ("train.py", "train.py"),
    ],
)
def test_a_script_is_named_with_its_folder_if_that_helps(script: str, name: str) -> None:
    assert name_of(script) == name
