"""Commands of one run are sent in their order, and wait for no other run."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from engine.client import CommandFailed
from engine.messages.commands import Command, Pause, Resume, SaveCheckpoint, Stop
from gui.bridge.machines.machines import Machines
from gui.bridge.run_commands import RunCommands
from tests.support.sentences import sentence


class Runs:
    """Runs that answer when the test lets them; run 9 answers at once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sent: list[tuple[str, Command]] = []
        self.most_at_once = 0
        self._waiting: defaultdict[str, int] = defaultdict(int)
        self._answers = threading.Semaphore(0)
        monkeypatch.setattr("engine.client.send", self._send)

    def answer(self, count: int = 1) -> None:
        self._answers.release(count)

    def _send(self, run_id: str, command: Command) -> int:
        self.sent.append((run_id, command))
        self._waiting[run_id] += 1
        self.most_at_once = max(self.most_at_once, self._waiting[run_id])
        if run_id != "9":
            self._answers.acquire()
        self._waiting[run_id] -= 1
        if command == Pause():
            raise CommandFailed("It cannot be paused.")
        return 1


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runs]:
    made = Runs(monkeypatch)
    yield made
    made.answer(100)


def test_a_run_gets_one_command_at_a_time_in_their_order(runs: Runs, qtbot: QtBot) -> None:
    commands = RunCommands(Machines())
    wanted: list[Command] = [SaveCheckpoint(), Pause(), Resume(), Stop(), Stop(now=True)]
    for command in wanted:
        commands.send("7", command)
    for count in range(1, len(wanted) + 1):
        qtbot.waitUntil(lambda n=count: len(runs.sent) == n)
        runs.answer()
    assert runs.sent == [("7", command) for command in wanted]
    assert runs.most_at_once == 1


def test_a_run_that_does_not_answer_delays_no_other(runs: Runs, qtbot: QtBot) -> None:
    commands = RunCommands(Machines())
    for run_id in map(str, range(8)):  # more than the window has threads for its other work
        commands.send(run_id, Stop())
    commands.send("9", Stop())
    qtbot.waitUntil(lambda: ("9", Stop()) in runs.sent)


def test_a_click_that_repeats_the_last_one_waits_for_its_answer(runs: Runs, qtbot: QtBot) -> None:
    commands = RunCommands(Machines())
    for _ in range(4):
        commands.send("7", SaveCheckpoint())
    qtbot.waitUntil(lambda: len(runs.sent) == 1)
    runs.answer()
    qtbot.waitUntil(lambda: not commands._waiting)
    commands.send("7", SaveCheckpoint())
    qtbot.waitUntil(lambda: len(runs.sent) == 2)


def test_a_failure_is_told_and_the_next_command_is_sent(runs: Runs, qtbot: QtBot) -> None:
    commands = RunCommands(Machines())
    runs.answer(2)
    with qtbot.waitSignal(commands.failed) as said:
        commands.send("7", Pause())
        commands.send("7", Stop())
    run_id, error = said.args
    assert (run_id, str(error)) == ("7", "It cannot be paused.")
    qtbot.waitUntil(lambda: runs.sent == [("7", Pause()), ("7", Stop())])


def test_a_limit_for_threads_is_told_and_later_commands_are_sent(
    runs: Runs, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    commands = RunCommands(Machines())
    with monkeypatch.context() as limited, qtbot.waitSignal(commands.failed) as said:
        limited.setattr(threading.Thread, "start", refuse)
        commands.send("7", Stop())
    assert str(said.args[1]) == sentence("run-was-sent-no-command-cannot")
    runs.answer()
    commands.send("7", Stop())
    qtbot.waitUntil(lambda: runs.sent == [("7", Stop())])
