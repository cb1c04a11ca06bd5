"""The connections of the window: what they tell arrives once, and nothing outlives the window."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from engine.interface.values import NoAnswer
from engine.remote.connection import LinkState, LinkStatus
from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState, RunStatus
from engine.system import machines as machine_list
from engine.system.machines import RemoteMachine
from gui.bridge.machines.machines import Machines, is_elsewhere, place_of, told_runs
from tests.support.recorded_runs import SPEC
from tests.support.sentences import sentence

pytestmark = pytest.mark.usefixtures("processes", "traindeck_home")

SLEEPS = ("sh", "-c", "exec cat > /dev/null")
"""In the place of `ssh`: a program that never says a word, and ends with its input."""


@pytest.fixture
def machines(qtbot: QtBot) -> Iterator[Machines]:
    machine_list.add(RemoteMachine(name="gpus", destination="me@gpus"))
    found = Machines()
    found.begin()
    yield found
    found.shut_down()  # a connection would be tried again and again in later tests


def info(id: str, state: RunState = RunState.RUNNING) -> RunInfo:
    return RunInfo(id, Path("gpus:/there"), SPEC, RunStatus(), state, "")


def test_the_place_of_a_run() -> None:
    assert place_of("12") == ("", "12")
    assert place_of("gpus:12") == ("gpus", "12")
    assert is_elsewhere(info("gpus:12"))
    assert not is_elsewhere(info("12"))


def test_a_run_of_a_machine_that_is_not_connected_is_refused_by_name(machines: Machines) -> None:
    with pytest.raises(NoAnswer, match="gpus is not connected"):
        machines.engine_of("gpus:1")


def test_only_runs_with_a_number_are_taken(machines: Machines) -> None:
    machines.connect_to("gpus", SLEEPS)
    try:
        machines._take_runs(
            "gpus", told_runs("gpus", [info("7"), info("../7"), info("a b")], [], ["7"])
        )
        assert [each.id for each in machines.runs()] == ["gpus:7"]
    finally:
        machines.shut_down()


def test_active_runs_are_uncertain_while_the_connection_is_broken(machines: Machines) -> None:
    machines.connect_to("gpus", SLEEPS)
    try:
        machines._take_runs(
            "gpus", told_runs("gpus", [info("2"), info("1", RunState.FINISHED)], [], ["2", "1"])
        )
        connection = machines.connection("gpus")
        machines._take_status("gpus", connection, LinkStatus(LinkState.WAITING, "It is off."))
        running, finished = machines.runs()
        assert (running.state, finished.state) == (RunState.ELSEWHERE, RunState.FINISHED)
        assert running.reason == sentence("there-is-no-connection-to-gpus-it-is-off")
    finally:
        machines.shut_down()


def test_a_question_ends_with_the_window(machines: Machines, qtbot: QtBot) -> None:
    machines.connect_to("gpus", SLEEPS)
    answers: list[str | None] = []
    asking = threading.Thread(target=lambda: answers.append(machines._ask("gpus", "password: ")))
    with qtbot.waitSignal(machines.question) as asked:
        asking.start()
    assert asked.args == ["gpus", "password: "]
    unseen = threading.Thread(target=lambda: answers.append(machines._ask("gpus", "again: ")))
    unseen.start()  # its question comes when the window takes none any more
    machines.shut_down()
    for thread in (asking, unseen):
        thread.join(60.0)
        assert not thread.is_alive()
    assert answers == [None, None]


def test_a_removed_machine_is_not_connected_any_more(machines: Machines, qtbot: QtBot) -> None:
    machines.connect_to("gpus", SLEEPS)
    machines._take_runs("gpus", told_runs("gpus", [info("7")], [], ["7"]))
    with qtbot.waitSignal(machines.listed) as listed:
        machines.remove("gpus")
    assert listed.args == [[]]
    assert machines.status("gpus") is None
    assert machines.runs() == []


def test_what_a_command_has_added_and_removed_is_followed(machines: Machines, qtbot: QtBot) -> None:
    machines.connect_to("gpus", SLEEPS)
    machine_list.add(RemoteMachine(name="lab", destination="me@lab"))
    machine_list.remove("gpus")
    with qtbot.waitSignal(machines.listed):
        machines.read_again()
    assert [each.name for each in machines.machines] == ["lab"]
    assert machines.status("gpus") is None


def test_a_list_that_cannot_be_read_for_once_ends_no_connection(
    machines: Machines, traindeck_home: Path, qtbot: QtBot
) -> None:
    machines.connect_to("gpus", SLEEPS)
    (traindeck_home / machine_list.FILE_NAME).write_text("noise")
    with qtbot.assertNotEmitted(machines.failed), qtbot.assertNotEmitted(machines.listed):
        machines.read_again()
    assert [each.name for each in machines.machines] == ["gpus"]
    assert machines.status("gpus") is not None


def test_a_list_that_cannot_be_read_is_said(traindeck_home: Path, qtbot: QtBot) -> None:
    traindeck_home.mkdir(exist_ok=True)
    (traindeck_home / machine_list.FILE_NAME).write_text("noise")
    machines = Machines()
    with qtbot.waitSignal(machines.failed) as failed:
        machines.begin()
    assert "cannot be read" in failed.args[0]
