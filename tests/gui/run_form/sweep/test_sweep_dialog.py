"""The dialog of a sweep: ranges that are checked while they are typed, and what will be trained."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QComboBox, QLineEdit, QPushButton, QToolButton, QWidget
from pytestqt.qtbot import QtBot

from engine.spec import catalog
from engine.spec.run_spec import FIELDS, RunSpec
from engine.sweeps.ranges import FIXED, Choices, Interval
from engine.sweeps.sweep import Sweep
from gui.run_form.sweep.sweep_dialog import SweepDialog
from tests.support.sentences import sentence

RECIPE = catalog.recipe("digits")
SPEC = RunSpec(
    recipe="digits",
    strategy="torch/single",
    devices=("cpu:0",),
    learning_rate=0.02,
    settings={"width": 48},
)


@pytest.fixture
def dialog(qtbot: QtBot) -> SweepDialog:
    return opened(qtbot, SPEC)


def opened(qtbot: QtBot, spec: RunSpec, machine: str = "") -> SweepDialog:
    parent = QWidget()
    qtbot.addWidget(parent)
    metrics = ["validation/loss", "validation/accuracy"]
    dialog = SweepDialog(spec, RECIPE, str, metrics, machine, parent)
    dialog.keeper = parent  # type: ignore[attr-defined]
    dialog.show()
    return dialog


def started(dialog: SweepDialog, qtbot: QtBot) -> Sweep:
    with qtbot.waitSignal(dialog.start_wanted) as wanted:
        dialog.start.click()
    return wanted.args[0]


def test_every_field_and_recipe_setting_that_can_vary_has_a_row(dialog: SweepDialog) -> None:
    own = {info.name for info in RECIPE.fields}
    assert dialog.ranges.keys() == (FIELDS.keys() - FIXED) | own
    assert dialog.ranges["learning_rate"].line.placeholderText() == "0.02"
    assert dialog.ranges["width"].line.placeholderText() == "48"
    assert all(each.line.accessibleName() for each in dialog.ranges.values())
    assert all(each.line.toolTip() for each in dialog.ranges.values())


def test_it_says_on_which_machine_the_sweep_will_run(qtbot: QtBot) -> None:
    dialog = opened(qtbot, SPEC, "gpus")
    assert dialog.windowTitle() == "Sweep of digits on gpus"
    dialog.ranges["width"].line.setText("16,32")
    assert dialog.plan.text() == sentence("on-gpus-runs-one-at-time-on-cpu")
    with qtbot.waitSignal(dialog.start_wanted) as wanted:
        dialog.start.click()
    assert wanted.args[1] == "gpus"


def test_nothing_starts_while_the_machine_is_not_connected(qtbot: QtBot) -> None:
    dialog = opened(qtbot, SPEC, "gpus")
    dialog.ranges["width"].line.setText("16,32")
    plan = dialog.plan.text()
    dialog.show_refusal("gpus: no.")
    dialog.set_place_problem("gpus is not connected now.")
    assert dialog.plan.text() == "gpus is not connected now."
    dialog.ranges["width"].line.setText("16,32,64")
    dialog.ranges["width"].line.setText("16,32")
    assert (dialog.plan.text(), dialog.start.isEnabled()) == ("gpus is not connected now.", False)
    dialog.set_place_problem("")
    assert (dialog.plan.text(), dialog.start.isEnabled()) == (plan, True)
    dialog.show_refusal("gpus: no.")
    dialog.start.click()
    assert (dialog.plan.text(), dialog.plan.objectName()) == ("Starting the sweep…", "")


def test_nothing_starts_without_a_range(dialog: SweepDialog) -> None:
    assert not dialog.start.isEnabled()
    assert dialog.plan.text() == sentence("give-at-least-one-setting-range")
    dialog.ranges["width"].line.setText("64")
    assert not dialog.start.isEnabled()
    assert dialog.ranges["width"].note.text() == sentence("one-value-for-all-runs")


def test_ranges_and_values_make_a_sweep_over_the_form(dialog: SweepDialog, qtbot: QtBot) -> None:
    dialog.ranges["learning_rate"].line.setText("1e-4..1e-1:log")
    dialog.ranges["dropout"].line.setText("0.1,0.3")
    dialog.ranges["epochs"].line.setText("3")
    dialog.options["trials"].set_value(40)
    dialog.options["parallel"].set_value(2)
    dialog.options["sampler"].set_value("random")
    dialog.options["pruner"].set_value("successive-halving")
    dialog.options["metric"].set_value("accuracy")
    dialog.options["seed"].set_value(7)
    assert dialog.plan.text() == sentence("runs-at-time-all-on-cpu")
    sweep = started(dialog, qtbot)
    assert sweep.ranges == {
        "learning_rate": Interval(1e-4, 0.1, log=True),
        "dropout": Choices((0.1, 0.3)),
    }
    assert sweep.base.settings == {"width": 48}
    assert sweep.base.epochs == 3
    assert (sweep.trials, sweep.parallel, sweep.sampler, sweep.seed) == (40, 2, "random", 7)
    assert (sweep.pruner, sweep.metric, sweep.lowest) == ("successive-halving", "accuracy", False)
    assert not dialog.start.isEnabled(), "a double click starts one sweep"


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("learning_rate", "1e-3,1e400", "must be a smaller number"),
        ("learning_rate", "..", sentence("must-be-number", value="..")),
        ("learning_rate", "1..0.1", "is empty"),
        ("learning_rate", "0..1", "must be above 0"),
        ("dropout", "nan..1", "must be a finite number"),
        ("dropout", "nan", "must be a finite number"),
        ("batch_size", "64,64", "has a value twice"),
        ("batch_size", "64,sixteen", sentence("must-be-whole-number", value="sixteen")),
        ("optimizer", "sgd..adamw", "is no number"),
        ("activation", "relu,no", "must be one of"),
    ],
)
def test_the_sentence_of_refusal_stands_below_its_row(
    dialog: SweepDialog, name: str, text: str, why: str
) -> None:
    field = dialog.ranges[name]
    dialog.ranges["width"].line.setText("16,32")
    assert dialog.start.isEnabled()
    field.line.setText(text)
    assert why in field.problem
    assert field.line.accessibleDescription() == field.problem
    assert not dialog.start.isEnabled()
    field.line.clear()
    assert field.problem == ""
    assert dialog.start.isEnabled()


@pytest.mark.parametrize(
    ("name", "text"),
    [("trials", "0"), ("trials", "1e9"), ("trials", "nan"), ("parallel", "-1"), ("seed", "")],
)
def test_options_that_are_not_valid_say_so(dialog: SweepDialog, name: str, text: str) -> None:
    dialog.ranges["width"].line.setText("16,32")
    dialog.options[name].set_value(text)
    assert dialog.options[name].problem
    assert not dialog.start.isEnabled()


def test_a_grid_has_as_many_runs_as_combinations(dialog: SweepDialog, qtbot: QtBot) -> None:
    dialog.ranges["width"].line.setText("16,32,64")
    dialog.ranges["seed"].line.setText("0..4")
    dialog.options["sampler"].set_value("grid")
    assert dialog.options["trials"].value() == 15
    assert dialog.plan.text() == sentence("runs-one-at-time-on-cpu")
    dialog.ranges["batch_size"].line.setText("1..999")
    assert sentence("this-grid-has-combinations", combinations="14,985") in dialog.plan.text()
    assert not dialog.start.isEnabled()
    dialog.ranges["batch_size"].line.clear()
    dialog.ranges["dropout"].line.setText("0..0.5")
    assert sentence("grid-needs-single-values-of", setting="dropout") in dialog.plan.text()
    dialog.ranges["dropout"].line.clear()
    assert started(dialog, qtbot).trials == 15
    dialog.options["sampler"].set_value("tpe")
    assert dialog.options["trials"].value() == 20


def test_the_devices_of_the_runs_are_said(qtbot: QtBot) -> None:
    spec = RunSpec(recipe="digits", strategy="torch/ddp", devices=("A", "B", "C", "D"))
    dialog = opened(qtbot, spec)
    dialog.ranges["width"].line.setText("16,32")
    assert dialog.plan.text() == sentence("runs-one-at-time-on-b")
    dialog.options["parallel"].set_value(2)
    assert dialog.plan.text() == sentence("runs-at-time-on-b")
    dialog.options["parallel"].set_value(3)
    assert sentence("devices-cannot-be-shared-equally", devices=4, runs=3) in dialog.plan.text()
    assert not dialog.start.isEnabled()


def test_a_refusal_is_shown_and_it_can_be_tried_again(dialog: SweepDialog, qtbot: QtBot) -> None:
    dialog.ranges["width"].line.setText("16,32")
    started(dialog, qtbot)
    dialog.show_refusal("There is no such device.")
    assert dialog.plan.text() == "There is no such device."
    assert dialog.start.isEnabled()


@pytest.fixture
def active(qtbot: QtBot) -> SweepDialog:
    """The dialog, which has the keyboard, and can start."""
    dialog = opened(qtbot, SPEC)
    dialog.ranges["width"].line.setText("16,32")
    dialog.activateWindow()
    qtbot.waitUntil(dialog.isActiveWindow)
    return dialog


def headings(dialog: SweepDialog) -> list[QToolButton]:
    return [each for each in dialog.findChildren(QToolButton) if each.objectName() == "group"]


def test_tab_reaches_everything_once(active: SweepDialog) -> None:
    begin = active.focusWidget()
    assert begin is active.ranges["learning_rate"].line
    reached: list[QWidget] = []
    while not reached or reached[-1] is not begin:
        QTest.keyClick(active.focusWidget(), Qt.Key.Key_Tab)
        widget = active.focusWidget()
        assert isinstance(widget, QLineEdit | QComboBox | QPushButton | QToolButton)
        assert widget not in reached, "Tab goes round"
        assert widget.hasFocus()
        reached.append(widget)
    assert set(headings(active)) <= set(reached), "a folded group opens without a mouse"
    folded = [each for each in headings(active) if not each.isChecked()]
    assert folded
    for heading in folded:
        heading.setFocus()
        QTest.keyClick(heading, Qt.Key.Key_Space)
        assert heading.isChecked()


@pytest.mark.parametrize("key", [None, Qt.Key.Key_Space])
def test_a_start_gives_its_focus_to_no_heading_and_has_it_again_when_it_is_refused(
    active: SweepDialog, qtbot: QtBot, key: Qt.Key | None
) -> None:
    active.start.setFocus()
    with qtbot.waitSignal(active.start_wanted):
        if key is None:
            QTest.mouseClick(active.start, Qt.MouseButton.LeftButton)
        else:
            QTest.keyClick(active.start, key)
    assert active.focusWidget() is None
    active.show_refusal("gpus: no.")
    assert active.focusWidget() is active.start
    active.set_place_problem("gpus is not connected now.")
    assert active.focusWidget() is None
    active.set_place_problem("")
    assert active.focusWidget() is active.start
    active.ranges["width"].line.setFocus()
    active.show_refusal("gpus: no.")
    assert active.focusWidget() is active.ranges["width"].line, "the focus stays in the field"
