"""A run of another machine that is gone is taken over, and no run that is alive."""

from __future__ import annotations

import msgspec
import pytest
from filelock import FileLock

from engine.client import CannotStart, CommandFailed, get_run, resume, send
from engine.messages.commands import Stop
from engine.messages.events import AttemptStarted
from engine.processes.machine import Machine
from engine.repair import take_over as module
from engine.repair.take_over import CannotTakeOver, take_over
from engine.runs import trash
from engine.runs.run_info import SUPERVISOR
from engine.runs.run_state import RunState
from engine.runs.trash import CannotDelete
from tests.support.recorded_runs import RUNNING, RecordedRun
from tests.support.sentences import sentence

OTHER = Machine("nodeB", "d2", "another boot", "pid:[1]")


@pytest.fixture
def run() -> RecordedRun:
    """A run that trains on another machine; its supervisor has the pid of this process."""
    made = RecordedRun()
    first, *others = RUNNING
    assert isinstance(first, AttemptStarted)
    made.add(msgspec.structs.replace(first, machine=OTHER), *others)
    made.store.close()
    return made


@pytest.fixture
def silent(run: RecordedRun, monkeypatch: pytest.MonkeyPatch) -> RecordedRun:
    """The same; its newest event, and sign of life, is old enough."""
    monkeypatch.setattr(module, "SILENT_SECONDS", 0.0)
    return run


def test_a_run_of_another_machine_is_left_alone(run: RecordedRun) -> None:
    info = get_run(run.id)
    assert info.state is RunState.ELSEWHERE
    assert info.reason.startswith(sentence("it-is-running-on-nodeb-command"))
    assert f"resume {run.id} --take-over" in info.reason
    assert info.status.troubles[SUPERVISOR] == info.reason, "the banner of the window shows it"
    with pytest.raises(CommandFailed, match="running on nodeB"):
        send(run.id, Stop())
    with pytest.raises(CannotStart, match=sentence("on-another-machine-it-is-running").pattern):
        resume(run.id)
    with pytest.raises(CannotDelete, match=sentence("is-on-another-machine-stop").pattern):
        trash.delete(run.id)


def test_a_run_that_is_alive_is_not_taken_over(run: RecordedRun) -> None:
    with pytest.raises(CannotTakeOver, match=sentence("alive-on-nodeb-last-sign").pattern):
        take_over(run.id)
    assert get_run(run.id).state is RunState.ELSEWHERE


def test_a_run_whose_lock_is_held_is_not_taken_over(silent: RecordedRun) -> None:
    with (
        FileLock(silent.folder / "supervisor.lock"),
        pytest.raises(CannotTakeOver, match=sentence("supervisor-holds-lock").pattern),
    ):
        take_over(silent.id)
    assert get_run(silent.id).state is RunState.ELSEWHERE


def test_a_silent_run_is_interrupted_once_it_is_taken_over(silent: RecordedRun) -> None:
    take_over(silent.id)
    assert get_run(silent.id).state is RunState.INTERRUPTED
    trash.delete(silent.id)
