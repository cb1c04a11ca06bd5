"""Own recipes and scripts are remembered with what was in the form; secrets are not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from PySide6.QtCore import QSettings
from pytestqt.qtbot import QtBot

from engine.spec.run_spec import RunSpec
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from gui.bridge.files.recent_forms import LAST, MOST, SETTING, RecentForms
from gui.run_form.run_form import RunForm


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "window.ini"


def settings(file: Path) -> QSettings:
    return QSettings(str(file), QSettings.Format.IniFormat)


SCRIPT = RunSpec(
    recipe="/home/me/train.py",
    strategy="script/single",
    devices=("cpu:0",),
    command=("train.py", "--name", 'ä "quoted" %s; [x]'),
    stored_variables=("A",),
    variables={"A": "1", "API_TOKEN": "very secret"},
)
RECIPE = RunSpec(recipe="/home/me/train.py", strategy="torch/ddp", devices=("cpu:0",), epochs=9)


def test_forms_survive_the_window_and_secrets_do_not(file: Path) -> None:
    recent = RecentForms(store := settings(file))
    recent.remember(RECIPE)
    recent.remember(SCRIPT)
    store.sync()
    assert b"very secret" not in file.read_bytes()
    again = RecentForms(settings(file))
    known = again.of(SCRIPT.recipe, is_script=True)
    assert known.command == SCRIPT.command
    assert (known.variables, known.secret_variables) == ({"A": "1"}, ("API_TOKEN",))
    assert again.of(RECIPE.recipe, is_script=False) == RECIPE
    assert again.last() == known


def test_the_oldest_are_forgotten_and_none_is_there_twice(file: Path) -> None:
    recent = RecentForms(settings(file))
    for number in range(MOST + 5):
        recent.remember(replace(SCRIPT, recipe=f"/s/{number}.py"))
    recent.remember(replace(SCRIPT, recipe="/s/20.py"))
    names = recent.files(is_script=True)
    assert len(names) == len(set(names)) == MOST
    assert names[0] == "/s/20.py"


def test_a_built_in_recipe_is_remembered_but_is_no_file(file: Path) -> None:
    recent = RecentForms(settings(file))
    recent.remember(SCRIPT)
    digits = RunSpec(recipe="digits", strategy="torch/single", devices=(), epochs=7, name="once")
    recent.remember(digits)
    again = RecentForms(settings(file))
    assert again.last() == replace(digits, name=""), "a name belongs to one run"
    assert again.files(is_script=True) == [SCRIPT.recipe]
    assert again.files(is_script=False) == []


@pytest.mark.parametrize("text", ["", "{", "{}", '[1, {"recipe": 3}, {"unknown": 1}]', "null"])
def test_what_cannot_be_read_is_left_out(file: Path, text: str) -> None:
    store = settings(file)
    store.setValue(SETTING, text)
    store.setValue(LAST, "script /x.py")
    recent = RecentForms(store)
    assert recent.files(is_script=True) == recent.files(is_script=False) == []
    assert recent.last() is None


def test_the_form_shows_again_what_was_in_it(file: Path, tmp_path: Path, qtbot: QtBot) -> None:
    script, recipe = tmp_path / "train.py", tmp_path / "mine.py"
    script.write_text("import argparse\nargparse.ArgumentParser().add_argument('--lr', type=float)")
    recipe.write_text("import torch\ndef model(depth: int = 3): ...\ndef datasets(): ...\n")
    form = RunForm(recent=RecentForms(settings(file)))
    qtbot.addWidget(form)
    form.open_path(str(recipe))
    form.field("settings.depth").set_value(7)
    form.field("epochs").set_value(9)
    form.open_path(str(script))
    lr = form.field("options.lr").widget
    lr.setText("0.5")
    form.heading.kind.recipe.setChecked(True)
    form.recipe.choose("digits")
    form.recipe.choose(str(recipe))
    assert form.field("settings.depth").value() == 7
    form.heading.kind.script.setChecked(True)
    form.remember()
    again = RunForm(recent=RecentForms(settings(file)))
    qtbot.addWidget(again)
    assert again.is_script
    spec = again.spec()
    assert spec.command == ("train.py", "--lr", "0.5")
    again.heading.kind.recipe.setChecked(True)
    shown = again.field("epochs").value(), again.field("settings.depth").value()
    assert shown == (9, 7), "the newest recipe stands behind the script, not the defaults of a spec"
    assert again.recipe.findData(str(recipe)) >= 0
    again.recipe.choose(str(recipe))
    assert again.field("settings.depth").value() == 7


def test_values_and_devices_of_a_built_in_recipe_come_back(file: Path, qtbot: QtBot) -> None:
    form = RunForm(recent=RecentForms(settings(file)))
    qtbot.addWidget(form)
    form.devices.set_devices(("GPU-b",))
    form.field("epochs").set_value(3)
    form.name_row.tags.setText("sweep, baseline")
    form.recipe.choose("digits_keras")
    form.field("epochs").set_value(4)
    form.recipe.choose("digits")
    assert form.field("epochs").value() == 3
    form.remember()
    again = RunForm(recent=RecentForms(settings(file)))
    qtbot.addWidget(again)
    assert again.recipe.recipe().name == "digits"
    assert again.field("epochs").value() == 3
    assert again.name_row.entered_tags() == ("baseline", "sweep")
    gpus = [DeviceSnapshot(id=f"GPU-{x}", kind="gpu", label=x, name="H100") for x in "ab"]
    again.devices.show_snapshot(Snapshot(time=1.0, devices=tuple(gpus)))
    assert again.devices.devices() == ("GPU-b",)
    again.recipe.choose("digits_keras")
    assert again.field("epochs").value() == 4


def test_a_script_leaves_a_recipes_defaults_alone(file: Path, tmp_path: Path, qtbot: QtBot) -> None:
    """Its spec holds batch size 128 and 5 epochs, which no one has entered."""
    script = tmp_path / "train.py"
    script.write_text("print(1)")
    form = RunForm(recent=RecentForms(settings(file)))
    qtbot.addWidget(form)
    names = ("batch_size", "epochs", "learning_rate")
    usual = [form.field(name).value() for name in names]
    assert usual != [128, 5, 1e-3]
    form.open_path(str(script))
    form.remember()
    stored = json.loads(settings(file).value(SETTING))
    settings(file).setValue(SETTING, json.dumps([each for each in stored if each.get("command")]))
    again = RunForm(recent=RecentForms(settings(file)))
    qtbot.addWidget(again)
    assert again.is_script
    again.heading.kind.recipe.setChecked(True)
    assert [
        again.field(name).value() for name in ("batch_size", "epochs", "learning_rate")
    ] == usual


def test_a_script_leaves_a_recipe_no_value(file: Path, tmp_path: Path, qtbot: QtBot) -> None:
    script = tmp_path / "train.py"
    script.write_text("import sys")
    form = RunForm(recent=RecentForms(settings(file)))
    qtbot.addWidget(form)
    form.open_path(str(script))
    form.heading.kind.recipe.setChecked(True)
    form.field("seed").set_value(5)
    form.field("learning_rate").set_value(0.02)
    form.open_path(str(script))
    form.script.choose(str(script))  # what is remembered for it has the seed of a new spec
    form.heading.kind.recipe.setChecked(True)
    assert (form.field("seed").value(), form.field("learning_rate").value()) == (5, 0.02)


def test_the_machine_of_the_next_run_is_remembered(qtbot: QtBot, tmp_path: Path) -> None:
    file = tmp_path / "window.ini"
    form = RunForm(recent=RecentForms(settings(file)))
    qtbot.addWidget(form)
    form.offer_machines({"gpus": True})
    form.machine.setCurrentIndex(1)
    form.remember()
    again = RunForm(recent=RecentForms(settings(file)))
    qtbot.addWidget(again)
    again.offer_machines({"gpus": False})
    assert again.machine.machine == "gpus"
