"""The strategies in the form: all in sight, those that cannot run now with the reason."""

from __future__ import annotations

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from gui.run_form.run_form import RunForm
from tests.gui.conftest import FakeStrategy, UseStrategies


def fake_form(qtbot: QtBot, use: UseStrategies, *strategies: FakeStrategy) -> RunForm:
    use(*strategies)
    form = RunForm()
    qtbot.addWidget(form)
    form.show()
    return form


def is_on_offer(form: RunForm, name: str) -> bool:
    model = form.strategy.model()
    return model.item(form.strategy.findData(name)).isEnabled()


def tip_of(form: RunForm, name: str) -> str:
    role = Qt.ItemDataRole.ToolTipRole
    return str(form.strategy.itemData(form.strategy.findData(name), role))


def test_those_that_can_run_are_first(qtbot: QtBot, use_strategies: UseStrategies) -> None:
    form = fake_form(
        qtbot,
        use_strategies,
        FakeStrategy("tf/other", recipes=frozenset({"keras"})),
        FakeStrategy("torch/many", least_devices=2),
        FakeStrategy("torch/one"),
    )
    assert form.strategy.names() == ["torch/one", "tf/other", "torch/many"]
    assert [is_on_offer(form, name) for name in form.strategy.names()] == [True, False, False]
    assert "digits is a torch recipe" in tip_of(form, "tf/other")
    assert "torch/many needs 2 devices" in tip_of(form, "torch/many")
    assert "The summary of torch/one" in tip_of(form, "torch/one")
    form.devices.set_devices(("cpu:0", "cpu:1"))
    assert form.strategy.names() == ["torch/many", "torch/one", "tf/other"]
    assert form.strategy.strategy().name == "torch/one"
    form.strategy.choose("torch/many")
    assert form.strategy_note.text() == ""
    assert "Needs 2 or more devices." in form.strategy.toolTip()
    form.devices.set_devices(("cpu:0",))
    assert form.strategy.strategy().name == "torch/many"
    assert "choose more" in form.devices.problem_note.problem
    form.recipe.choose("digits_keras")
    assert form.strategy.strategy().name == "tf/other"
    assert form.spec() is not None


def test_a_recipe_that_nothing_trains_says_so(qtbot: QtBot, use_strategies: UseStrategies) -> None:
    form = fake_form(qtbot, use_strategies, FakeStrategy("torch/one"))
    form.recipe.choose("digits_keras")
    assert "Choose another strategy" in form.strategy_note.text()
    assert form.spec() is None


def test_after_a_change_of_recipe_the_usual_strategy_is_chosen(qtbot: QtBot) -> None:
    form = RunForm()
    qtbot.addWidget(form)
    form.devices.set_devices(("cpu:0", "cpu:1"))
    form.strategy.choose("torch/ddp")
    form.recipe.choose("digits_keras")
    assert form.strategy.strategy().name == "tf/mirrored"
    form.recipe.choose("digits")
    assert form.strategy.strategy().name == "torch/ddp"
    form.devices.set_devices(("cpu:0",))
    form.recipe.choose("digits_keras")
    assert form.strategy.strategy().name == "tf/single"
