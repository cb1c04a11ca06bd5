"""The environment of a recipe in the form, and the dialog that makes one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QMessageBox
from pytestqt.qtbot import QtBot

from engine.environments import creation, registry
from engine.environments.creation import CreationFailed, Stage
from engine.environments.registry import Environment, Facts
from engine.spec.run_spec import RunSpec
from engine.spec.validation import Problem
from engine.system.cancelled import Cancelled
from gui.bridge import environments
from gui.run_form.environment.making_dialog import MakingDialog
from gui.run_form.run_form import RunForm
from tests.gui.run_form.test_run_form import GPUS, snapshot
from tests.support.sentences import sentence

TF = "/of/tensorflow/bin/python"
FACTS = Facts("3.12.4", {"tensorflow": "2.21.0"})


class Creation:
    """Stands in for `creation.create`; it ends when it is told how."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[str, Sequence[str]]] = []
        self.may_end = threading.Event()
        self.outcome: Exception | None = None
        monkeypatch.setattr(creation, "create", self.create)

    def create(
        self,
        name: str,
        requirements: Sequence[str],
        *,
        base: str,
        default_for: str,
        report: Callable[[Stage], None],
        is_cancelled: Callable[[], bool],
    ) -> Environment:
        self.asked.append((name, requirements))
        report(Stage("Downloading tensorflow", 3 * 2**20))
        while not self.may_end.wait(0.01):
            if is_cancelled():
                raise Cancelled
        if self.outcome:
            raise self.outcome
        made = Environment(name, TF, is_ours=True, facts=FACTS)
        registry.add(made)
        registry.use(name, [default_for])
        return made


@pytest.fixture
def problems(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """What the files of an environment tell, by its Python."""
    found: dict[str, str] = {}

    def check(spec: RunSpec, *_: Any) -> list[Problem]:
        text = found.get(spec.interpreter, "")
        return [Problem("interpreter", text)] if text else []

    monkeypatch.setattr(environments, "interpreter_problems", check)
    return found


@pytest.fixture
def form(qtbot: QtBot, problems: dict[str, str]) -> Iterator[RunForm]:
    form = RunForm()
    qtbot.addWidget(form)
    form.show()
    yield form
    form.environment.maker.stop()


@pytest.fixture
def maker_double(monkeypatch: pytest.MonkeyPatch) -> Creation:
    return Creation(monkeypatch)


def _entries(form: RunForm) -> list[str]:
    combo = form.environment.combo
    return [combo.itemText(row) for row in range(combo.count()) if combo.itemText(row)]


def _interpreter(form: RunForm) -> str:
    spec = form.spec()
    return spec.interpreter


def _choose(form: RunForm, text: str) -> None:
    combo = form.environment.combo
    combo.activated.emit(combo.findText(text))


def making(form: RunForm) -> MakingDialog:
    """The dialog that makes one."""
    (dialog,) = (each for each in form.findChildren(MakingDialog) if not each.isHidden())
    return dialog


def test_the_row_is_shown_where_there_is_a_choice(form: RunForm) -> None:
    assert form.environment.isHidden()
    assert "Traindeck's own" in form.environment_button.toolTip()
    form.environment_button.click()
    assert form.environment.isVisible()
    form.environment_button.click()
    assert form.environment.isHidden()
    registry.add(Environment("mine", "/mine/bin/python"))
    form.environment.refresh()
    form.environment.changed.emit()
    assert form.environment.isVisible()
    form.heading.kind.script.setChecked(True)
    assert form.environment.isHidden()


def test_a_run_uses_the_environment_that_is_chosen(form: RunForm) -> None:
    registry.add(Environment("mine", "/mine/bin/python", facts=Facts("3.12.4", {"torch": "2"})))
    form.environment.refresh()
    own, mine, browse, make = _entries(form)
    assert own.startswith("Traindeck's own")
    assert (mine, browse) == ("mine · Python 3.12.4 · PyTorch", "Browse…")
    assert make == "Make one for PyTorch…"
    _choose(form, mine)
    spec = form.spec()
    assert spec.interpreter == "/mine/bin/python"
    assert form.template is None
    _choose(form, own)
    spec = form.spec()
    assert spec.interpreter == ""
    assert form.template is not None


def test_each_framework_has_its_environment(form: RunForm) -> None:
    registry.add(Environment("tf", TF, facts=FACTS))
    registry.use("tf", ["tensorflow"])
    form.recipe.choose("digits_keras")
    form.strategy.choose("tf/mirrored")
    assert form.environment.combo.currentText() == "tf · Python 3.12.4 · TensorFlow"
    assert _interpreter(form) == TF
    form.strategy.choose("torch/keras_ddp")
    assert _interpreter(form) == ""
    form.strategy.choose("tf/mirrored")
    assert _interpreter(form) == TF


def test_a_python_that_cannot_train_is_named(form: RunForm, problems: dict[str, str]) -> None:
    problems["/old/bin/python"] = "It is Python 3.10."
    spec = RunSpec(
        recipe="digits", strategy="torch/single", devices=("cpu:0",), interpreter="/old/bin/python"
    )
    form.load(spec)
    assert form.environment.note.text() == "⚠ It is Python 3.10."
    assert not form.start_button.isEnabled()
    assert "/old/bin/python" in _entries(form)
    assert form.environment.offer.isHidden()  # it trains on the CPU


def test_tensorflow_on_gpus_is_offered_an_environment(
    form: RunForm, problems: dict[str, str], maker_double: Creation, qtbot: QtBot
) -> None:
    problems[""] = "TensorFlow sees no GPU."
    form.devices.show_snapshot(snapshot(*GPUS))
    form.recipe.choose("digits_keras")
    form.strategy.choose("tf/mirrored")
    assert form.environment.offer.isVisible()
    assert "TensorFlow on GPUs" in form.environment.offer.text()
    form.environment.offer.click()
    dialog = making(form)
    assert dialog.requirements.text() == "tensorflow[and-cuda]>=2.21,<2.22"
    with qtbot.waitSignal(form.environment.maker.progressed):
        dialog.make_button.click()
    assert "3.0 MiB · Downloading tensorflow" in dialog.stage.text()
    assert form.environment.progress.text().startswith("tensorflow-gpu: ")
    assert not dialog.make_button.isEnabled()
    with qtbot.waitSignal(form.environment.maker.made):
        maker_double.may_end.set()
    assert maker_double.asked == [("tensorflow-gpu", ["tensorflow[and-cuda]>=2.21,<2.22"])]
    assert not dialog.isVisible()
    assert registry.default_interpreter("tensorflow") == TF
    assert _interpreter(form) == TF
    assert form.environment.offer.isHidden()


def test_a_cancelled_creation_is_told(form: RunForm, maker_double: Creation, qtbot: QtBot) -> None:
    form.environment.make()
    dialog = making(form)
    dialog.make_button.click()
    assert form.environment.maker.is_making
    with qtbot.waitSignal(form.environment.maker.cancelled):
        dialog.cancel_button.click()
    assert not form.environment.maker.is_making
    assert "nothing of it is left" in dialog.note.text()
    assert dialog.make_button.isEnabled()
    assert not form.environment.progress.isVisible()


def test_a_click_or_key_that_comes_twice_does_not_cancel(
    form: RunForm, maker_double: Creation, qtbot: QtBot
) -> None:
    form.environment.make()
    dialog = making(form)
    place = dialog.make_button.geometry()
    QTest.mouseClick(dialog.make_button, Qt.MouseButton.LeftButton)
    dialog.layout().activate()
    assert (dialog.make_button.geometry(), dialog.make_button.isVisible()) == (place, True)
    assert dialog.focusWidget() is dialog.log
    with qtbot.waitSignal(form.environment.maker.cancelled):
        dialog.cancel_button.click()
    assert dialog.note.text()
    dialog.make()
    assert dialog.note.text() == "", "it was about the one before"


def test_a_new_dialog_shows_nothing_of_the_environment_before(
    form: RunForm, maker_double: Creation, qtbot: QtBot
) -> None:
    maker_double.outcome = CreationFailed("The disk is full.")
    maker_double.may_end.set()
    creation.log_file("old").parent.mkdir(parents=True, mode=0o700)
    creation.log_file("old").write_text("of the old one\n")
    with qtbot.waitSignal(form.environment.maker.failed):
        form.environment.maker.start("old", ["torch"])
    form.environment.make()
    dialog = making(form)
    assert dialog.log.toPlainText() == ""


def test_an_environment_without_the_framework_is_no_default(form: RunForm, qtbot: QtBot) -> None:
    maker = form.environment.maker
    maker.name, maker.default_for = "mine", "torch"
    with qtbot.waitSignal(form.environment.message) as said:
        maker.made.emit(Environment("mine", TF, facts=FACTS))
    [text] = said.args
    assert text.endswith(sentence("environment-has-no-pytorch"))


def test_the_user_is_asked_before_a_creation_ends(form: RunForm, maker_double: Creation) -> None:
    row = form.environment
    assert not row.asks_before_close()
    row.maker.start("mine", ["torch"])
    assert row.asks_before_close()
    [box] = form.findChildren(QMessageBox)
    assert sentence("environment-mine-is-being-made") in box.text()
    [end] = [each for each in box.buttons() if each.text() == "End it and close"]
    end.click()
    assert not form.isVisible()
    assert not row.asks_before_close(), "the answer was given"


def test_a_failed_creation_says_why_and_shows_the_log(
    form: RunForm, maker_double: Creation, qtbot: QtBot, tmp_path: Path
) -> None:
    maker_double.outcome = CreationFailed("The disk is full.")
    maker_double.may_end.set()
    form.environment.make()
    dialog = making(form)
    creation.log_file(dialog.name.text()).parent.mkdir(parents=True, mode=0o700)
    creation.log_file(dialog.name.text()).write_text("ERROR: [Errno 28]\n")
    with qtbot.waitSignal(form.environment.maker.failed):
        QTest.keyClick(dialog.name, Qt.Key.Key_Return)
    assert dialog.note.text() == "⚠ The disk is full."
    assert "[Errno 28]" in dialog.log.toPlainText()
    assert dialog.make_button.isEnabled()


def test_a_closed_window_ends_the_creation(form: RunForm, maker_double: Creation) -> None:
    form.environment.maker.start("a", ["torch"])
    form.environment.maker.stop()
    assert not form.environment.maker._thread.is_alive()


def test_a_damaged_list_is_named(form: RunForm, qtbot: QtBot) -> None:
    file = registry.folder().with_name(registry.FILE_NAME)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("{")
    form.environment.refresh()
    assert "environments.json" in form.environment.note.text()
    assert _entries(form)[0].startswith("Traindeck's own")
    assert form.spec() is not None
