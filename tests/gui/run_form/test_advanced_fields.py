"""The options of a run in the form: grouped, and greyed where the strategy refuses them."""

from __future__ import annotations

from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit
from pytestqt.qtbot import QtBot

from engine.spec.field_info import Setting
from engine.spec.run_spec import FIELDS, RunSpec
from engine.spec.spec_fields import GROUPS
from gui.run_form.advanced_fields import RECIPE
from gui.run_form.run_form import RunForm
from tests.gui.conftest import FakeStrategy, UseStrategies
from tests.support.sentences import sentence


def line(form: RunForm, name: str) -> QLineEdit:
    widget = form.field(name).widget
    assert isinstance(widget, QLineEdit)
    return widget


def fake_form(qtbot: QtBot, use: UseStrategies, *strategies: FakeStrategy) -> RunForm:
    use(*strategies)
    form = RunForm()
    qtbot.addWidget(form)
    form.show()
    return form


def test_every_field_can_be_set_and_comes_back(qtbot: QtBot, use_strategies: UseStrategies) -> None:
    form = fake_form(qtbot, use_strategies, FakeStrategy("torch/fake"))
    other: dict[str, Setting] = {}
    for name, info in FIELDS.items():
        match info.default:
            case bool():
                other[name] = not info.default
            case int() | float():
                other[name] = info.default / 2 if info.most == 1 else info.default + 2
            case _:
                other[name] = info.choices[-1] if info.choices else "accuracy"
        assert form.field(name).widget.accessibleName() == info.title
        assert form.field(name).label.text().replace("&", "") == info.title
    other |= {"momentum": 0.5, "schedule": "cosine"}  # one_cycle refuses a warm-up
    other["tensorboard_folder"] = "/logs"  # another one than an absolute path is refused
    energy = other.pop("energy_limit_wh")
    for name in ("min_machines", "shared_folder"):  # for devices of several machines only
        other.pop(name)
    spec = RunSpec(recipe="digits", strategy="torch/fake", devices=("cpu:0",), **other)  # type: ignore[arg-type]
    form.load(spec)
    assert form.spec() == spec
    for name, info in FIELDS.items():
        assert name not in other or getattr(spec, name) != info.default, name
    form.load(replace(spec, energy_limit_wh=energy))
    assert form.spec() is None
    assert sentence("power-of-cpu-is-not-measured") in form.field("energy_limit_wh").problem


def test_each_heading_counts_its_changes(qtbot: QtBot, use_strategies: UseStrategies) -> None:
    form = fake_form(qtbot, use_strategies, FakeStrategy("torch/fake"))
    for title in (RECIPE, *GROUPS):
        assert form.advanced.groups[title].heading.text() == title
    line(form, "warmup_steps").setText("10")
    line(form, "settings.width").setText("64")
    assert form.advanced.groups["Optimizer"].heading.text() == "Optimizer · 1 changed"
    assert form.advanced.groups[RECIPE].heading.text() == "Recipe · 1 changed"


def test_a_click_or_a_problem_unfolds_a_group(qtbot: QtBot, use_strategies: UseStrategies) -> None:
    form = fake_form(qtbot, use_strategies, FakeStrategy("torch/fake"))
    line(form, "checkpoint_steps").setText("x")
    assert form.field("checkpoint_steps").isVisible()
    line(form, "checkpoint_steps").setText("5")
    assert not form.field("clip_norm").isVisible()
    heading = form.advanced.groups["Optimizer"].heading
    form.resize(320, 900)
    for _ in range(5):  # until every layout has heard of every other one
        QApplication.processEvents()
    QTest.mouseClick(heading, Qt.MouseButton.LeftButton)
    assert form.field("clip_norm").isVisible()
    QTest.mouseClick(heading, Qt.MouseButton.LeftButton)
    assert not form.field("clip_norm").isVisible()


def test_what_is_refused_is_greyed_and_default(qtbot: QtBot, use_strategies: UseStrategies) -> None:
    picky = FakeStrategy("torch/picky", refusals={"compile": "It cannot.", "clip_norm": "No norm."})
    form = fake_form(qtbot, use_strategies, FakeStrategy("torch/easy"), picky)
    form.field("compile").set_value(True)
    line(form, "clip_norm").setText("nonsense")
    form.strategy.choose("torch/picky")
    assert "It cannot." in form.field("compile").widget.toolTip()
    assert not form.field("compile").widget.isEnabled()
    with qtbot.waitSignal(form.start_requested) as asked:
        form.start()
    assert (asked.args[0].compile, asked.args[0].clip_norm) == (False, 0.0)
    form.strategy.choose("torch/easy")
    assert form.field("compile").widget.isEnabled()
    line(form, "clip_norm").setText("1")
    spec = form.spec()
    assert spec.compile


class Hesitant(FakeStrategy):
    """What it refuses depends on other fields and on the value."""

    def refusal(self, field: str, spec: RunSpec) -> str:
        if field == "momentum" and spec.optimizer != "sgd":
            return "Only sgd has a momentum."
        if field == "precision" and spec.precision == "fp16":
            return "fp16 needs a GPU."
        return ""


def test_a_refusal_follows_other_fields(qtbot: QtBot, use_strategies: UseStrategies) -> None:
    form = fake_form(qtbot, use_strategies, Hesitant("torch/hesitant"))
    momentum, precision = form.field("momentum"), form.field("precision")
    assert momentum.refusal == "Only sgd has a momentum."
    form.field("optimizer").set_value("sgd")
    assert momentum.refusal == ""
    momentum.set_value(0.9)
    form.field("optimizer").set_value("adam")
    assert momentum.value() == 0.0
    assert form.spec() is not None
    assert precision.refusal == ""
    choices = precision.widget.model()
    enabled = [choices.item(row).isEnabled() for row in range(choices.rowCount())]
    assert enabled == [True] * (choices.rowCount() - 1) + [False]
    precision.set_value("fp16")
    assert "needs a GPU" in precision.problem
    assert form.spec() is None
