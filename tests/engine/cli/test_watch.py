"""Waiting for what a run does, through its store."""

from __future__ import annotations

import sqlite3
import subprocess
import sys

import pytest

from engine.cli import watch
from engine.cli.output import Unanswered
from engine.cli.watch import updates, wait_for_event
from engine.interface import local_watches
from engine.interface.local_engine import LocalEngine
from engine.interface.local_watches import NoStore
from engine.messages.events import AttemptStarted, CheckpointSaved, CommandRefused, Paused, RunEnded
from engine.processes.process import start_time
from engine.runs.run_state import RunState
from engine.runs.store.store_follower import StoreFollower
from tests.support.recorded_runs import RUNNING, record_run
from tests.support.sentences import sentence

ENGINE = LocalEngine()

SAVED = CheckpointSaved(path="checkpoints/step-00000012", step=12, epoch=1, bytes=5, seconds=0.1)
END = RunEnded(state="finished", reason="All 3 epochs are done.")


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """What these tests wait for stands in the store already, or never comes."""
    monkeypatch.setattr(local_watches, "EVENT_SECONDS", 0.0)
    monkeypatch.setattr(watch, "ANSWER_SECONDS", 0.2)
    monkeypatch.setattr(watch, "START_SECONDS", 0.2)


def test_updates_tell_every_event_once_and_end_with_the_run() -> None:
    run = record_run(*RUNNING)
    looks = updates(ENGINE, run.id, after=0, attempt=1)
    first = next(looks)
    assert first.state is RunState.RUNNING
    assert [stored.event for stored in first.events] == list(RUNNING[:2])  # progress is no event
    run.add(SAVED)
    assert [stored.event for stored in next(looks).events] == [SAVED]
    run.add(END)
    last = next(looks)
    assert last.state is RunState.FINISHED
    assert [stored.event for stored in last.events] == [END]
    assert list(looks) == []


def test_the_end_of_an_earlier_attempt_is_not_the_end_of_the_next() -> None:
    run = record_run(*RUNNING, RunEnded(state="stopped", reason="Stopped."))
    looks = updates(ENGINE, run.id, after=0, attempt=2)
    first = RUNNING[0]
    assert isinstance(first, AttemptStarted)
    run.add(AttemptStarted(2, first.supervisor_pid, first.supervisor_created), END)
    assert [update.state for update in looks] == [RunState.FINISHED]


def test_an_attempt_that_never_begins_is_given_up() -> None:
    run = record_run(*RUNNING, RunEnded(state="stopped", reason="Stopped."))
    with pytest.raises(Unanswered, match="did not begin"):
        list(updates(ENGINE, run.id, after=0, attempt=2))


@pytest.mark.usefixtures("processes")
def test_a_run_whose_supervisor_is_gone_is_over() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        supervisor = AttemptStarted(1, process.pid, start_time(process.pid))
        process.communicate(b"\n")
    run = record_run(supervisor, *RUNNING[1:])
    assert [update.state for update in updates(ENGINE, run.id, after=0, attempt=1)] == [
        RunState.INTERRUPTED
    ]


def test_an_answer_is_the_first_event_of_its_kind_after_the_command() -> None:
    run = record_run(*RUNNING)
    seq = run.add(CheckpointSaved(path="old", step=3, epoch=0, bytes=5, seconds=0.1))
    run.add(Paused(step=12), SAVED)
    assert wait_for_event(ENGINE, run.id, CheckpointSaved, after=seq) == SAVED


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([END], sentence("run-ended-before-it-could-answer")),
        ([CommandRefused("save_checkpoint", "The disk is full.")], "The disk is full."),
        ([Paused(step=12)], sentence("did-not-carry-it-out-within")),
    ],
)
def test_an_answer_that_does_not_come_ends_in_a_sentence(
    events: list[RunEnded | CommandRefused | Paused], said: str
) -> None:
    run = record_run(*RUNNING)
    seq = run.store.last_seq()
    run.add(*events)
    with pytest.raises(Unanswered) as error:
        wait_for_event(ENGINE, run.id, CheckpointSaved, after=seq)
    assert said in str(error.value)


def test_a_store_that_is_damaged_meanwhile_is_named_with_its_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = record_run(*RUNNING)
    looks = updates(ENGINE, run.id, after=0, attempt=1)
    next(looks)

    def fail(_: StoreFollower) -> None:
        raise sqlite3.DatabaseError("file is not a database")

    monkeypatch.setattr(StoreFollower, "status", fail)
    with pytest.raises(NoStore, match=f"store of run {run.id}, in .*file is not a database"):
        list(looks)
