"""The form for a new run: problems beside the fields, and never a bad spec."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QEnterEvent, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QLineEdit
from pytestqt.qtbot import QtBot

from engine.spec.validation import Problem
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from engine.templates.kinds import KINDS, TemplateKind
from gui.bridge.files import gpu_builds
from gui.run_form.run_form import RunForm
from tests.gui.conftest import FakeStrategy, UseStrategies
from tests.support.sentences import sentence

GPUS = ("GPU-aaaa", "GPU-bbbb")


def snapshot(*gpus: str) -> Snapshot:
    return Snapshot(
        time=0.0,
        devices=(
            DeviceSnapshot(id="cpu", kind="cpu", label="CPU", name="CPU"),
            *(
                DeviceSnapshot(id=id, kind="gpu", label=str(number), name="NVIDIA H100")
                for number, id in enumerate(gpus)
            ),
        ),
    )


@pytest.fixture
def form(qtbot: QtBot) -> RunForm:
    form = RunForm()
    qtbot.addWidget(form)
    form.show()
    return form


def line(form: RunForm, name: str) -> QLineEdit:
    widget = form.field(name).widget
    assert isinstance(widget, QLineEdit)
    return widget


def test_the_first_run_is_one_click_away(form: RunForm, qtbot: QtBot) -> None:
    with qtbot.waitSignal(form.start_requested) as asked:
        QTest.mouseClick(form.start_button, Qt.MouseButton.LeftButton)
    spec, tags = asked.args
    assert tags == ()
    assert (spec.recipe, spec.strategy, spec.devices) == ("digits", "torch/single", ("cpu:0",))
    assert spec.settings == {}


NONSENSE = (
    ("batch_size", "abc", "must be a whole number"),
    ("batch_size", "", "must be a whole number"),
    ("batch_size", "0", "at least 1"),
    ("batch_size", "-5", "at least 1"),
    ("epochs", "1.5", "must be a whole number"),
    ("epochs", "0", "at least 1"),
    ("learning_rate", "0,1", "must be a number"),
    ("learning_rate", "nan", "must be a finite number"),
    ("learning_rate", "-1", "above 0"),
    ("learning_rate", "inf", "must be a finite number"),
    ("seed", "99999999999999999999", "at most 2147483647"),
    ("keep_checkpoints", "0", "at least 1"),
    ("learning_rate", "1e400", "smaller number"),
    ("settings.width", "wide", sentence("width-must-be-whole-number")),
    ("settings.width", "99999999999999999999", "between -2^63 and 2^63"),
    ("settings.dropout", "1e400", "smaller number"),
)


def test_nonsense_is_said_beside_its_field_and_nothing_starts(form: RunForm, qtbot: QtBot) -> None:
    for name, text, words in NONSENSE:
        field = line(form, name)
        before = field.text()
        field.clear()
        QTest.keyClicks(field, text)
        assert words in form.field(name).problem, (name, text)
        assert form.spec() is None
        assert not form.start_button.isEnabled()
        with qtbot.assertNotEmitted(form.start_requested):
            form.start()
        field.setText(before)
        assert form.field(name).problem == ""
        assert form.start_button.isEnabled()


def test_a_problem_in_the_advanced_part_is_scrolled_to(form: RunForm, qtbot: QtBot) -> None:
    form.resize(400, 500)
    last = list(form.advanced.fields)[-1]
    assert not form.field(last).isVisible()
    form.show_problems([Problem(last, "This does not go together.")])
    qtbot.waitUntil(lambda: not form.field(last).visibleRegion().isEmpty())


def test_the_arithmetic_of_the_batch_is_always_in_sight(form: RunForm) -> None:
    line(form, "batch_size").setText("64")
    assert form.field("batch_size").note == sentence("64-per-replica-on-1")
    form.strategy.choose("torch/ddp")
    form.devices.set_devices(("cpu:0", "cpu:1"))
    assert form.field("batch_size").note == sentence("32-per-replica-on-2")
    line(form, "workers_per_device").setText("99999999999999999999")
    assert "at most 64" in form.field("workers_per_device").problem, "and not counted out"


def test_the_arithmetic_knows_shared_devices(use_strategies: UseStrategies, qtbot: QtBot) -> None:
    use_strategies(FakeStrategy("torch/fake"))
    form = RunForm()
    qtbot.addWidget(form)
    line(form, "batch_size").setText("64")
    line(form, "accumulation").setText("4")
    line(form, "workers_per_device").setText("2")
    assert form.field("batch_size").note == sentence("per-replica-replicas-accumulation-steps")


def test_gpus_are_chosen_by_uuid_and_never_with_the_cpu(form: RunForm) -> None:
    form.devices.show_snapshot(snapshot(*GPUS))
    spec = form.spec()
    assert spec.devices == (GPUS[0],), "the first one by itself"
    form.devices.chips[GPUS[1]].click()
    assert form.devices.devices() == GPUS
    form.devices.cpu.click()
    assert form.devices.devices() == ("cpu:0",)
    form.devices.chips[GPUS[1]].click()
    assert form.devices.devices() == (GPUS[1],)
    form.devices.chips[GPUS[1]].click()
    assert "choose at least one" in form.devices.problem_note.problem


def test_torch_without_cuda_is_refused(form: RunForm, monkeypatch: pytest.MonkeyPatch) -> None:
    def without_cuda(framework: str, interpreter: str, maker: str) -> str:
        return f"{framework} of {interpreter!r} was built without CUDA."

    monkeypatch.setattr(gpu_builds, "gpu_problem", without_cuda)
    assert form.spec() is not None  # on the CPU
    form.devices.show_snapshot(snapshot(*GPUS))
    assert form.devices.problem_note.problem == sentence("torch-of-was-built-without-cuda")
    assert form.spec() is None
    assert not form.start_button.isEnabled()


def test_a_gpu_that_goes_away_is_a_problem_until_it_comes_back(form: RunForm) -> None:
    form.devices.show_snapshot(snapshot(*GPUS))
    form.devices.show_snapshot(snapshot(GPUS[1]))
    assert "not on this machine" in form.devices.problem_note.problem
    form.devices.show_snapshot(snapshot(*GPUS))
    assert form.spec() is not None


def test_a_users_recipe_brings_its_defaults_and_fields(form: RunForm, tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        'DEFAULTS = {"epochs": 9, "batch_size": 10, "learning_rate": 0.5}\n'
        "import torch\n"
        "raise SystemExit('a form that runs this is wrong')\n"
        "def model(depth: int = 3, wide: bool = False): ...\n"
        "def datasets(): ...\n"
    )
    form.recipe.choose(str(path))
    spec = form.spec()
    assert (spec.recipe, spec.epochs, spec.batch_size) == (str(path), 9, 10)
    assert spec.learning_rate == 0.5
    assert form.field("settings.depth").value() == 3
    assert form.field("settings.wide").value() is False


def test_a_broken_recipe_says_what_is_wrong(form: RunForm, tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("def model(:\n")
    form.recipe.choose(str(path))
    assert "syntax error in line 1" in form.recipe_note.problem
    assert form.spec() is None
    form.recipe.choose("digits")
    assert form.recipe_note.problem == ""
    assert form.spec() is not None


def test_what_the_engine_refuses_is_said_beside_its_field(form: RunForm) -> None:
    form.show_problems([Problem("epochs", "Too many."), Problem("", "The disk is full.")])
    assert form.field("epochs").problem == "Too many."
    assert form.note.problem == "The disk is full."


def test_the_strategy_and_the_recipe_decide_which_framework_is_loaded(form: RunForm) -> None:
    changes: list[TemplateKind | None] = []
    form.template_changed.connect(changes.append)
    assert form.template is KINDS["torch"]
    form.field("epochs").set_value(7)
    form.strategy.choose("torch/ddp")
    assert changes == []
    form.recipe.choose("digits_keras")
    form.strategy.choose("tf/single")
    form.strategy.choose("torch/keras_ddp")
    assert changes[-2:] == [KINDS["tensorflow"], KINDS["keras-torch"]]
    form.field("cold_start").set_value(True)
    assert changes[-1] is form.template is None
    form.field("cold_start").set_value(False)
    assert changes[-1] is KINDS["keras-torch"]


def test_name_tags_and_cold_start_are_in_the_command(form: RunForm, qtbot: QtBot) -> None:
    assert "--cold-start" not in copied_command(form)
    form.field("cold_start").set_value(True)
    spec = form.spec()
    assert spec.cold_start
    assert copied_command(form).endswith(" --cold-start")
    other = QLineEdit()
    qtbot.addWidget(other)
    other.show()
    with qtbot.waitActive(other):
        other.activateWindow()
    other.setFocus()
    entered: list[bool] = []
    form.entered.connect(lambda: entered.append(True))
    with qtbot.waitActive(form):
        form.activateWindow()
        line(form, "epochs").setFocus()
    assert entered == [True]
    line(form, "batch_size").setFocus()
    assert entered == [True], "it was inside already"
    corner = QPointF()
    QApplication.sendEvent(form, QEnterEvent(corner, corner, corner))
    assert entered == [True, True]


def copied_command(form: RunForm) -> str:
    form.copy_command()
    return QGuiApplication.clipboard().text()


OWN = (
    'DEFAULTS = {{"epochs": {epochs}}}\nimport torch\n'
    "def model({settings}): ...\ndef datasets(): ...\n"
)


@pytest.fixture
def own(form: RunForm, tmp_path: Path) -> Path:
    path = tmp_path / "mine.py"
    path.write_text(OWN.format(epochs=9, settings="depth: int = 3, wide: bool = False, rate=0.5"))
    form.recipe.choose(str(path))
    return path


def test_a_changed_recipe_keeps_what_was_typed(form: RunForm, own: Path, qtbot: QtBot) -> None:
    line(form, "settings.depth").setText("7")
    line(form, "settings.rate").setText("0.x")
    line(form, "batch_size").setText("12")
    new = own.with_suffix(".new")
    new.write_text(OWN.format(epochs=11, settings="depth: int = 4, wide: bool = True, rate=0.6"))
    with qtbot.waitSignal(form.message) as said:
        new.replace(own)
    assert "mine has changed on disk" in said.args[0]
    assert "read again" in form.recipe_note.text()
    assert line(form, "settings.depth").text() == "7"
    assert line(form, "settings.rate").text() == "0.x"
    assert form.field("settings.wide").value() is True, "it was never changed"
    assert (line(form, "batch_size").text(), form.field("epochs").value()) == ("12", 11)


def test_while_it_is_being_edited_nothing_that_was_typed_is_lost(form: RunForm, own: Path) -> None:
    line(form, "settings.depth").setText("7")
    own.write_text("def model(:\n")
    form._watch.check()
    assert "syntax error" in form.recipe_note.problem
    assert form.spec() is None
    own.write_text(OWN.format(epochs=9, settings="depth: int = 3, width: int = 5"))
    form._watch.check()
    spec = form.spec()
    assert spec.settings == {"depth": 7}


def test_a_setting_that_is_gone_is_said(form: RunForm, own: Path) -> None:
    line(form, "settings.depth").setText("7")
    own.write_text(OWN.format(epochs=9, settings="width: int = 5"))
    form._watch.check()
    assert "no setting depth any more" in form.recipe_note.text()
    form.recipe.choose("digits")
    assert form.recipe_note.text() == ""


def test_a_recipe_is_opened_at_its_problem(form: RunForm, own: Path, qtbot: QtBot) -> None:
    own.write_text("import torch\n\ndef model(:\n")
    form._watch.check()
    with qtbot.waitSignal(form.edit_clicked) as asked:
        form.edit_button.click()
    assert asked.args == [(own, 3)]


def test_a_recipe_may_train_by_steps(form: RunForm, own: Path) -> None:
    own.write_text(OWN.format(epochs=9, settings="").replace('"epochs"', '"steps": 500, "epochs"'))
    form.recipe.choose(str(own))
    spec = form.spec()
    assert (spec.steps, spec.epochs) == (500, 9)
    assert "ends after 500 steps" in form.field("epochs").refusal
    line(form, "steps").setText("0")
    assert form.field("epochs").refusal == ""
    form.recipe.choose("digits")
    spec = form.spec()
    assert spec.steps == 0


def test_name_and_tags_go_with_the_start_and_the_name_is_for_one_run(
    form: RunForm, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert form.name_row.name.placeholderText() == "digits"
    form.name_row.name.setText(" wide ")
    form.name_row.tags.setText("sweep, base , sweep")
    form.copy_command()
    copied = QGuiApplication.clipboard().text()
    assert "--name wide" in copied
    assert "--tag base --tag sweep" in copied
    with qtbot.waitSignal(form.start_requested) as asked:
        form.start()
    assert (asked.args[0].name, asked.args[1]) == ("wide", ("base", "sweep"))
    monkeypatch.setattr("gui.widgets.steady_button.time.monotonic", lambda: 100.0)
    form.run_started("1")
    with qtbot.assertNotEmitted(form.start_requested):  # the second click of a double click
        QTest.mouseClick(form.start_button, Qt.MouseButton.LeftButton)
    assert form.name_row.entered_name() == ""
    assert form.name_row.entered_tags() == ("base", "sweep")


def test_a_start_with_a_problem_says_it_and_goes_to_the_field(form: RunForm, qtbot: QtBot) -> None:
    form.activateWindow()
    line(form, "epochs").setText("x")
    with qtbot.waitSignal(form.message) as said, qtbot.assertNotEmitted(form.start_requested):
        form.start()
    assert said.args == [sentence("not-started-epochs-must-be-whole")]
    assert form.focusWidget() is line(form, "epochs")
    line(form, "epochs").setText("1")
    form.devices.set_devices(())
    assert "choose at least one" in form.devices.problem_note.problem
