"""The dialogs: what is wrong with a machine is said at once; an answer is passed on once."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtWidgets import QLineEdit, QWidget
from pytestqt.qtbot import QtBot
from shiboken6 import isValid

from gui.bridge.machines.machine_list import ssh_hosts
from gui.machines.add_dialog import AddMachineDialog
from gui.machines.question_dialog import QuestionDialog


@pytest.fixture
def window(qtbot: QtBot) -> QWidget:
    window = QWidget()
    qtbot.addWidget(window)
    return window


def test_the_name_of_the_host_is_proposed(window: QWidget, qtbot: QtBot) -> None:
    dialog = AddMachineDialog(window)
    assert not dialog.add.isEnabled()
    dialog.destination.setText("ada@lab-server.example.org")
    with qtbot.waitSignal(dialog.wanted) as asked:
        dialog.add.click()
    assert asked.args == ["lab-server", "ada@lab-server.example.org", "traindeck"]


@pytest.mark.parametrize(
    ("destination", "name", "words"),
    [("-oProxyCommand=x", "", "no destination"), ("ada@host", "a b", "no name"), ("a b", "", "no")],
)
def test_what_ssh_must_not_get_is_refused(
    window: QWidget, destination: str, name: str, words: str
) -> None:
    dialog = AddMachineDialog(window)
    dialog.destination.setText(destination)
    dialog.name.setText(name)
    assert words in dialog.problem.text()
    assert not dialog.add.isEnabled()


def test_the_aliases_of_ssh_are_offered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert ssh_hosts() == []
    (tmp_path / ".ssh").mkdir()
    config = "Host gpus lab\n  User ada\nhost *.example.org !x\nHost=box\nMatch all\n"
    (tmp_path / ".ssh" / "config").write_text(config)
    assert ssh_hosts() == ["gpus", "lab", "box"]


def test_an_answer_is_hidden_and_told_once(window: QWidget, qtbot: QtBot) -> None:
    dialog = QuestionDialog("gpus", "ada@gpus's password: ", window)
    assert dialog.field.echoMode() is QLineEdit.EchoMode.Password
    told: list[str | None] = []
    dialog.answered.connect(told.append)
    dialog.field.setText("secret")
    dialog.answer.click()
    assert told == ["secret"]
    assert dialog.field.text() == ""


def test_closing_means_no_answer_and_an_end_nothing(window: QWidget, qtbot: QtBot) -> None:
    told: list[str | None] = []
    window.show()
    for end in (QuestionDialog.close, QuestionDialog.reject, QuestionDialog.end):
        dialog = QuestionDialog("gpus", "password: ", window)
        dialog.answered.connect(told.append)
        dialog.show()
        end(dialog)
        qtbot.waitUntil(lambda closed=dialog: not isValid(closed))
    assert told == [None, None]


def test_an_answered_dialog_is_gone(window: QWidget, qtbot: QtBot) -> None:
    window.show()
    dialog = QuestionDialog("gpus", "password: ", window)
    dialog.show()
    dialog.field.setText("secret")
    dialog.answer.click()
    qtbot.waitUntil(lambda: not isValid(dialog))
