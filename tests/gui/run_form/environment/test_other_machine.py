"""The row of the environments while another machine is chosen in the form."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace
from PySide6.QtCore import QSettings
from pytestqt.qtbot import QtBot

from engine.environments import registry
from engine.environments.registry import Environment, Facts
from engine.spec.run_spec import RunSpec
from gui.bridge.files.recent_forms import RecentForms
from gui.bridge.machines.environments_there import EnvironmentsThere, _Listed
from gui.run_form.environment.making_dialog import MakingDialog
from gui.run_form.run_form import RunForm
from tests.support.sentences import sentence

HERE, THERE = "/here/bin/python", "/there/bin/python"
SPEC = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",), interpreter=HERE)


@pytest.fixture
def there() -> EnvironmentsThere:
    return EnvironmentsThere()


@pytest.fixture
def form(there: EnvironmentsThere, tmp_path: Path, qtbot: QtBot) -> RunForm:
    settings = QSettings(str(tmp_path / "window.ini"), QSettings.Format.IniFormat)
    form = RunForm(recent=RecentForms(settings), environments_there=there)
    qtbot.addWidget(form)
    form.show()
    form.offer_machines({"gpus": True})
    return form


def go_there(form: RunForm, there: EnvironmentsThere, *defaults: str) -> None:
    """Choose the machine, which answers that it has one environment."""
    form.machine.setCurrentIndex(1)
    facts = Facts("3.12.4", {"torch": "2"})
    big = Environment("big", THERE, default_for=defaults, facts=facts)
    there._take("gpus", _Listed([big]))


def entries(form: RunForm) -> list[str]:
    combo = form.environment.combo
    return [combo.itemText(row) for row in range(combo.count()) if combo.itemText(row)]


def interpreter(form: RunForm) -> str:
    spec = form.spec()
    assert spec is not None, form._found
    return spec.interpreter


def test_the_pythons_are_those_of_the_machine(form: RunForm, there: EnvironmentsThere) -> None:
    form.machine.setCurrentIndex(1)
    assert form.spec() is None, "nobody knows its default yet"
    go_there(form, there, "torch")
    assert form.environment.isVisible()
    assert entries(form) == [
        "Traindeck's own on gpus",
        "big · Python 3.12.4 · PyTorch",
        "Make one for PyTorch…",
    ]
    assert interpreter(form) == THERE
    form.environment.combo.activated.emit(0)
    assert interpreter(form) == ""


def test_no_python_goes_from_here_to_there(form: RunForm, there: EnvironmentsThere) -> None:
    registry.add(Environment("mine", HERE))
    form.environment.choose("torch", HERE)
    go_there(form, there)
    assert interpreter(form) == ""
    form.load(SPEC)  # such as a preset
    assert interpreter(form) == ""
    form.load(replace(SPEC, interpreter=THERE))
    assert interpreter(form) == THERE
    form.remember()
    form.machine.setCurrentIndex(0)
    assert form.environment.interpreter() == ""
    form.load(replace(SPEC, interpreter="/of/a/run/there"), "lab")  # which is not offered
    assert form.environment.interpreter() == ""
    remembered = form._recent.of("digits", is_script=False)
    assert remembered.interpreter == ""


def test_the_python_of_a_run_there_is_chosen(form: RunForm, there: EnvironmentsThere) -> None:
    go_there(form, there)
    form.load(replace(SPEC, interpreter="/of/a/run/there"), "gpus")
    assert interpreter(form) == "/of/a/run/there"
    assert "/of/a/run/there" in entries(form)


def make_from_the_list(form: RunForm) -> MakingDialog:
    combo = form.environment.combo
    combo.activated.emit(combo.findText("Make one for PyTorch…"))
    return form.findChildren(MakingDialog)[-1]


def test_the_proposed_name_is_free_there(form: RunForm, there: EnvironmentsThere) -> None:
    registry.add(Environment("torch-gpu-2", HERE))
    form.machine.setCurrentIndex(1)
    there._take("gpus", _Listed([Environment("torch-gpu", THERE)]))
    dialog = make_from_the_list(form)
    assert dialog.name.text() == "torch-gpu-2"
    assert dialog.windowTitle() == sentence("make-environment-for-pytorch-on-gpus")
    assert dialog.is_default.text() == sentence("use-it-for-all-runs")
    form.machine.setCurrentIndex(0)
    assert make_from_the_list(form).windowTitle() == sentence("make-environment-for-pytorch")


def test_a_new_one_is_chosen_only_on_its_machine(
    form: RunForm, there: EnvironmentsThere, qtbot: QtBot
) -> None:
    row, new = form.environment, Environment("new", "/there/new/bin/python")
    row.maker.name, row.maker.machine = "new", "gpus"
    with qtbot.waitSignal(row.message) as said:
        row.maker.made.emit(new)
    assert said.args == [sentence("environment-new-on-gpus-is-made")]
    assert interpreter(form) == "", "this machine is chosen"
    go_there(form, there)
    row.maker.made.emit(new)
    assert interpreter(form) == new.python


def test_why_the_list_is_missing_is_beside_it(form: RunForm, there: EnvironmentsThere) -> None:
    form.machine.setCurrentIndex(1)
    there._take("gpus", _Listed([], "gpus: The list is damaged."))
    assert form.environment.note.text() == "⚠ gpus: The list is damaged."
    assert interpreter(form) == ""
