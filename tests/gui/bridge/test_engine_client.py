"""The object that talks to the engine: nothing blocks, every outcome is a signal."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from engine import client
from engine.client import CannotStart, CommandFailed, NoSuchRun, RecipeChanged, RunInfo
from engine.interface.local_engine import LocalEngine
from engine.interface.values import ResumedRun
from engine.messages.commands import Command, Pause
from engine.messages.events import RecipeVersion, RunEnded
from engine.processes.process import start_time
from engine.runs import device_queue
from engine.runs.device_queue import Ticket
from engine.runs.run_state import RunState, RunStatus
from engine.spec.run_spec import RunSpec
from engine.spec.validation import Problem
from engine.system import paths
from gui.bridge.background import Background
from gui.bridge.engine_client import EngineClient, ResumeRequest
from tests.gui.conftest import Record
from tests.support.sentences import sentence

SPEC = RunSpec(recipe="digits", strategy="torch/single", devices=("cpu:0",))


@pytest.fixture
def controller(qtbot: QtBot) -> Iterator[EngineClient]:
    background = Background()
    yield EngineClient(background)
    background.finish()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Command]]:
    commands: list[tuple[str, Command]] = []

    def send(run_id: str, command: Command) -> int:
        commands.append((run_id, command))
        return 1

    monkeypatch.setattr("engine.client.send", send)
    return commands


def unusable(damaged: str, previous: Path | None) -> client.CheckpointUnusable:
    error = client.CheckpointUnusable.__new__(client.CheckpointUnusable, "It is damaged.")
    error.damaged, error.previous = damaged, previous
    return error


def info(state: RunState) -> RunInfo:
    return RunInfo("7", Path("runs/7"), SPEC, RunStatus(state=state), state, "")


def test_a_start_happens_on_another_thread_and_says_its_run(
    controller: EngineClient, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []

    def start(spec: RunSpec, tags: Iterable[str] = (), planning: object = None) -> str:
        threads.append(threading.current_thread())
        assert spec is SPEC
        return "7"

    monkeypatch.setattr("engine.client.start", start)
    with qtbot.waitSignal(controller.started) as said:
        controller.start(SPEC)
        controller.start(SPEC)  # a double click
    assert said.args == ["7"]
    assert len(threads) == 1
    assert threads[0] is not threading.main_thread()


def test_what_keeps_a_run_from_starting_is_said_field_by_field_and_it_can_be_tried_again(
    controller: EngineClient, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    problems = [Problem("epochs", "Too few.")]

    def start(spec: RunSpec, tags: Iterable[str] = (), planning: object = None) -> str:
        raise CannotStart(problems)

    monkeypatch.setattr("engine.client.start", start)
    for _ in range(2):
        with qtbot.waitSignal(controller.problems) as said:
            controller.start(SPEC)
        assert said.args == [problems]


def test_the_second_stop_means_now_until_the_run_is_resumed(
    controller: EngineClient, qtbot: QtBot, sent: list[tuple[str, Command]]
) -> None:
    controller.watch("7")
    states = ([RunState.RUNNING], [RunState.RUNNING], [RunState.STOPPED, RunState.RUNNING])
    for count, seen in enumerate((*states, [RunState.STOPPING]), 1):
        for state in seen:
            controller.show_status(info(state))
        controller.stop()
        qtbot.waitUntil(lambda count=count: len(sent) == count)
    assert [command.now for _, command in sent] == [False, True, False, True]
    assert {run_id for run_id, _ in sent} == {"7"}


def test_a_refused_command_is_said_in_its_sentence(
    controller: EngineClient, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send(run_id: str, command: Command) -> int:
        raise CommandFailed("The run is over.")

    monkeypatch.setattr("engine.client.send", send)
    controller.watch("7")
    for ask in (
        controller.pause,
        controller.pause_and_free,
        controller.resume_paused,
        controller.save_checkpoint,
        controller.empty_cache,
        controller.stop,
    ):
        with qtbot.waitSignal(controller.failed) as said:
            ask()
        assert said.args == ["The run is over."]


def test_a_pause_may_free_the_gpus_and_without_a_run_nothing_is_asked(
    controller: EngineClient, qtbot: QtBot, sent: list[tuple[str, Command]]
) -> None:
    controller.stop()
    controller.pause()
    controller.watch("7")
    controller.pause_and_free()
    qtbot.waitUntil(lambda: sent == [("7", Pause(free_devices=True))])


ASKED = ResumeRequest("7", Path("step-20"))


@pytest.fixture
def saved(traindeck_home: Path) -> Path:
    """Where the checkpoint of `ASKED` lies."""
    folder = paths.run_folder("7")
    folder.mkdir(parents=True)
    return folder / "checkpoints" / "step-20"


@pytest.fixture
def resumed(saved: Path, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What the engine was asked to resume; what a test appends first is raised instead."""
    calls: list[Any] = []

    def resume(
        run_id: str, checkpoint: Path | None, spec: RunSpec | None, *_: object, as_new: bool
    ) -> ResumedRun:
        if calls and isinstance(calls[0], Exception):
            raise calls.pop(0)
        calls.append((run_id, checkpoint, spec))
        return ResumedRun("8" if as_new else run_id, "", 2, 0)

    monkeypatch.setattr("engine.interface.local_runs.resume", resume)
    return calls


def test_a_run_goes_on_as_it_was_asked_to(
    controller: EngineClient, qtbot: QtBot, resumed: list[Any], saved: Path
) -> None:
    changed = ASKED._replace(spec=SPEC)
    for asked, run_id in ((ASKED, "7"), (changed, "7"), (changed._replace(as_new=True), "8")):
        with qtbot.waitSignal(controller.started) as said:
            controller.resume(asked)
        assert said.args == [run_id]
    assert resumed == [("7", saved, None), ("7", saved, SPEC), ("7", saved, SPEC)]


def test_a_damaged_checkpoint_is_named_with_the_one_before_it(
    controller: EngineClient, qtbot: QtBot, resumed: list[Any]
) -> None:
    resumed.append(unusable("step-20", Path("step-10")))
    with qtbot.waitSignal(controller.checkpoint_unusable) as said:
        controller.resume(ASKED)
    assert said.args == [ASKED, "step-20", Path("step-10")]
    with qtbot.waitSignal(controller.started):
        controller.resume(ASKED._replace(checkpoint=Path("step-10")))


def test_a_changed_recipe_is_a_question_and_the_answer_reaches_the_engine(
    controller: EngineClient, qtbot: QtBot, saved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = []

    def resume(
        run_id: str,
        _: object,
        spec: object,
        recipe: RecipeVersion | None,
        *__: object,
        as_new: bool,
    ) -> ResumedRun:
        answers.append(recipe)
        if recipe is None:
            raise RecipeChanged(run_id, "mine.py: 3 lines changed")
        return ResumedRun(run_id, "", 2, 0)

    monkeypatch.setattr("engine.interface.local_runs.resume", resume)
    with qtbot.waitSignal(controller.recipe_changed) as said:
        controller.resume(ASKED)
    assert said.args == [ASKED, "mine.py: 3 lines changed"]
    with qtbot.waitSignal(controller.started):
        controller.resume(ASKED._replace(recipe=RecipeVersion.AS_IT_IS_NOW))
    assert answers == [None, RecipeVersion.AS_IT_IS_NOW]


def test_why_a_run_cannot_go_on_is_said_in_sentences_or_by_field(
    controller: EngineClient, qtbot: QtBot, resumed: list[Any]
) -> None:
    for error in (
        unusable("step-20", None),
        CannotStart([Problem("", "It is damaged.")]),
        NoSuchRun("It is damaged."),
    ):
        resumed.append(error)
        with qtbot.waitSignal(controller.resume_refused) as said:
            controller.resume(ASKED)
        assert said.args == ["7", "It is damaged."]
    resumed.append(CannotStart([Problem("epochs", "Too few.")]))
    with qtbot.waitSignal(controller.problems) as said:
        controller.resume(ASKED._replace(spec=SPEC))
    assert said.args == [[Problem("epochs", "Too few.")]]


def test_the_checkpoints_of_a_run_are_listed(
    controller: EngineClient, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gui.bridge.machines.machines.get_run", lambda run_id: f"run {run_id}")
    monkeypatch.setattr(LocalEngine, "list_checkpoints", lambda _, run_id: [run_id])
    with qtbot.waitSignal(controller.checkpoints_listed) as said:
        controller.list_checkpoints("7")
    assert said.args == ["run 7", ["7"]]


def test_an_unknown_error_is_not_swallowed(
    controller: EngineClient, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(spec: RunSpec, tags: Iterable[str] = (), planning: object = None) -> str:
        raise ZeroDivisionError("a mistake in the program")

    monkeypatch.setattr("engine.client.start", start)
    with qtbot.captureExceptions() as caught:
        controller.start(SPEC)
        qtbot.waitUntil(lambda: len(caught) == 1)
    assert caught[0][0] is ZeroDivisionError


def test_the_runs_are_listed_newest_first_again_if_one_is_asked_for_meanwhile(
    controller: EngineClient, qtbot: QtBot, record: Record
) -> None:
    record().begin()
    said: list[list[str]] = []
    controller.runs_listed.connect(lambda infos: said.append([info.id for info in infos]))
    controller.refresh_changed_runs()
    record().begin()
    controller.refresh_runs()
    controller.refresh_runs()
    qtbot.waitUntil(lambda: len(said) == 2)
    assert said[1] == ["2", "1"]


def test_the_window_begins_with_the_newest_active_run(
    controller: EngineClient, qtbot: QtBot, record: Record
) -> None:
    end = RunEnded("finished", "")
    for ending in ([end], [], [end]):
        run = record()
        run.begin()
        run.add(*ending)
    with qtbot.waitSignal(controller.first_found) as said:
        controller.find_first()
    assert said.args == ["3"]
    for before, first in (("1", "1"), ("9", "3"), ("../x", "3")):
        with qtbot.waitSignal(controller.first_found) as said:
            controller.find_first(before)
        assert said.args == [first], "the run that was shown, where there still is one"
    pid = os.getpid()
    device_queue.enter(Ticket("2", pid, start_time(pid), (), ()))
    with qtbot.waitSignal(controller.first_found) as said:
        controller.find_first("1")
    assert said.args == ["2"], "it trains now"


def test_a_queued_run_is_moved_and_a_move_that_makes_no_sense_is_said(
    controller: EngineClient, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    with qtbot.waitSignal(controller.failed) as said:
        controller.move("7", "up")
    assert said.args == [sentence("run-does-not-wait-in-queue")]
    moves: list[tuple[str, str]] = []
    monkeypatch.setattr("engine.runs.device_queue.move", lambda *move: moves.append(move))
    with qtbot.waitSignal(controller.runs_listed):
        controller.move("7", "first")
    assert moves == [("7", "first")]
