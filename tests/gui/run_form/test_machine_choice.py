"""The row for the machine keeps the chosen one while its connection is broken."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from gui.run_form.machine_choice import MachineChoice
from tests.support.sentences import sentence


@pytest.fixture
def choice(qtbot: QtBot) -> MachineChoice:
    choice = MachineChoice()
    qtbot.addWidget(choice)
    return choice


def texts(choice: MachineChoice) -> list[str]:
    return [choice.itemText(row) for row in range(choice.count())]


def test_those_that_are_connected_are_offered_in_their_order(choice: MachineChoice) -> None:
    choice.offer({"b": True, "c": False})
    choice.offer({"a": True, "b": True, "c": True})
    assert texts(choice) == ["This machine", "a", "b", "c"]
    assert choice.machine == ""


def test_the_chosen_one_stays_while_its_connection_is_broken(choice: MachineChoice) -> None:
    choice.offer({"a": True, "gpus": True, "z": True})
    choice.setCurrentIndex(2)
    told = []
    choice.chosen.connect(lambda: told.append(choice.machine))
    choice.offer({"a": False, "gpus": False, "z": True})
    assert choice.machine == "gpus"
    assert texts(choice) == ["This machine", "gpus (not connected)", "z"]
    assert choice.problem == sentence("gpus-is-not-connected-now-wait")
    choice.offer({"a": True, "gpus": True, "z": True})
    assert texts(choice) == ["This machine", "a", "gpus", "z"]
    assert (choice.machine, choice.problem, told) == ("gpus", "", [])


def test_the_chosen_one_that_was_disconnected_gives_way_unless_there_is_no_choice(
    choice: MachineChoice,
) -> None:
    choice.offer({"a": True, "gpus": True})
    choice.setCurrentIndex(2)
    told = []
    choice.chosen.connect(lambda: told.append(choice.machine))
    choice.offer({"a": True})
    assert (choice.machine, told) == ("", [""])
    choice.offer({"a": True, "gpus": True})
    choice.setCurrentIndex(2)
    choice.setEnabled(False)
    choice.offer({"a": True})
    assert (choice.machine, choice.problem) == ("gpus", sentence("gpus-is-not-connected-now"))
    assert texts(choice) == ["This machine", "a", "gpus (not connected)"]
    choice.setEnabled(True)
    choice.offer(choice.connections)
    assert texts(choice) == ["This machine", "a"]
    assert choice.machine == ""


def test_the_machine_of_the_last_window_is_chosen_early(choice: MachineChoice) -> None:
    choice.wanted = "gpus"
    choice.offer({})
    assert choice.machine == ""
    choice.offer({"a": True, "gpus": False})
    assert (choice.machine, choice.currentText()) == ("gpus", "gpus (not connected)")
    choice.setCurrentIndex(0)
    choice.offer({"a": True, "gpus": True})
    assert choice.machine == "", "the user has chosen another one"


def test_what_the_user_chooses_meanwhile_stays(choice: MachineChoice) -> None:
    choice.wanted = "gpus"
    choice.offer({"a": True})
    choice.choose("a")
    choice.offer({"a": True, "gpus": True})
    assert choice.machine == "a"
