"""A supervisor whose run is over waits for a disk that does not take the end of it."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import pytest

from engine.messages.channel import CommandAccepted
from engine.messages.commands import Pause, Stop
from engine.messages.events import CommandRefused, RunEnded
from engine.supervisor.inbox import SignalReceived
from engine.supervisor.last_record import wait_until_recorded
from tests.engine.supervisor.conftest import MakeRun
from tests.support.scripted_run import FULL, ScriptedRun


@pytest.fixture
def run(make_run: MakeRun) -> ScriptedRun:
    """A run that is over, and whose last steps and end the disk did not take."""
    made = make_run()
    made.disk(28, FULL)
    made.script(28, lambda _: made.clock.after(5.0, lambda: made.command(Stop())))
    assert made.train().state == "stopped"
    assert made.buffer.is_behind
    return made


def waited(run: ScriptedRun) -> float:
    begun = run.clock.monotonic()
    wait_until_recorded(run.buffer, run.inbox)
    return run.clock.monotonic() - begun


def test_the_end_is_recorded_once_there_is_room(run: ScriptedRun) -> None:
    run.clock.after(600.0, lambda: run.refuse(None))
    assert 600.0 <= waited(run) < 602.0
    assert [event.state for event in run.events(RunEnded)] == ["stopped"]
    assert run.steps() == list(range(1, run.status.step + 1))


@pytest.mark.parametrize(
    "end",
    [
        lambda run: run.command(Stop()),
        lambda run: run.inbox.put(SignalReceived("SIGTERM")),
        lambda run: shutil.rmtree(run.folder),
    ],
    ids=["a Stop", "a signal", "no folder"],
)
def test_it_does_not_wait_for_ever(run: ScriptedRun, end: Callable[[ScriptedRun], None]) -> None:
    run.clock.after(600.0, lambda: end(run))
    assert 600.0 <= waited(run) < 602.0


def test_a_command_to_a_run_that_is_over_is_refused_with_the_reason(run: ScriptedRun) -> None:
    run.answers.clear()
    run.clock.after(10.0, lambda: run.command(Pause()))
    run.clock.after(20.0, lambda: run.command(Stop()))
    waited(run)
    refused, accepted = run.answers
    assert isinstance(refused, CommandRefused)
    assert "the disk is full" in refused.reason
    assert isinstance(accepted, CommandAccepted)


def test_an_end_that_is_recorded_needs_no_wait(make_run: MakeRun) -> None:
    made = make_run()
    made.train()
    assert waited(made) == 0.0
