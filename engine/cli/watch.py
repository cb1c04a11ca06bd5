"""Looks at a run through its store, again and again; prints nothing."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from engine import client
from engine.cli.output import NoAnswer
from engine.messages.events import AttemptStarted, CommandRefused, Event
from engine.runs import run_info
from engine.runs.run_state import RunState, RunStatus
from engine.runs.store_follower import StoreFollower
from engine.runs.store_reader import RunReader, StoredEvent
from engine.system import paths

PERIOD = 0.1
"""Seconds between two looks; the supervisor commits about as often."""

LONGEST_BEGINNING = 20.0
"""Seconds within which a supervisor that was started must have begun its attempt."""

LONGEST_ANSWER = 120.0
"""Seconds within which a run must have carried out a command (it may be in a long step)."""


_Answer = TypeVar("_Answer")


class Update(NamedTuple):
    """One look at a run."""

    status: RunStatus
    state: RunState
    events: list[StoredEvent]
    """What happened since the look before."""


def updates(run_id: str, *, after: int, attempt: int) -> Iterator[Update]:
    """Looks at a run until it is over; the last one holds the end.

    Begins with the events after number `after`, and waits for attempt number `attempt` to begin.
    Raises NoAnswer if it does not.
    """
    with closing(_open(run_id, after)) as follower:
        deadline = time.monotonic() + LONGEST_BEGINNING
        while True:
            update = _look(follower)
            if update.status.attempt >= attempt:
                yield update
                if update.state.is_over:
                    return
            elif time.monotonic() > deadline:
                raise NoAnswer(f"Run {run_id} did not begin within {LONGEST_BEGINNING:.0f} s.")
            time.sleep(PERIOD)


def answer(run_id: str, kind: type[_Answer], *, after: int) -> _Answer:
    """The first event of `kind` after number `after`. Raises NoAnswer as `answers` does."""
    return next(event for event in answers(run_id, after=after) if isinstance(event, kind))


def answers(run_id: str, *, after: int) -> Iterator[Event]:
    """The events after number `after`, as they come in, for someone who waits for one of them.

    Raises NoAnswer when the run refuses, ends, or takes longer than LONGEST_ANSWER.
    """
    deadline = time.monotonic() + LONGEST_ANSWER
    for update in updates(run_id, after=after, attempt=0):
        for stored in update.events:
            if isinstance(stored.event, CommandRefused):
                raise NoAnswer(stored.event.reason)
            yield stored.event
        if time.monotonic() > deadline:
            raise NoAnswer(
                f"Run {run_id} has taken the command, but did not carry it out within "
                f"{LONGEST_ANSWER:.0f} s."
            )
    raise NoAnswer(
        f"Run {run_id} ended before it could answer: it is {client.get_run(run_id).state}."
    )


def last_seq(folder: Path) -> int:
    """Number of the newest event of the run in `folder`; 0 where there is no store yet."""
    try:
        with RunReader(folder) as reader:
            return reader.last_seq()
    except sqlite3.OperationalError:
        return 0


def newest_attempt(folder: Path) -> tuple[int, int]:
    """The number of the newest attempt of the run in `folder`, and that of the event with which it
    began. Raises sqlite3.Error."""
    with RunReader(folder) as reader:
        begun = [
            (stored.event.attempt, stored.seq)
            for stored in reader.events_after(0)
            if isinstance(stored.event, AttemptStarted)
        ]
    return begun[-1]


def _open(run_id: str, after: int) -> StoreFollower:
    """Open the store, which the supervisor may be about to create."""
    follower = StoreFollower(paths.run_folder(run_id), after=after)
    deadline = time.monotonic() + LONGEST_BEGINNING
    while True:
        with suppress(sqlite3.OperationalError):  # it has no tables yet
            if follower.open():
                return follower
        if time.monotonic() > deadline:
            raise NoAnswer(f"Run {run_id} has no store: its supervisor wrote none.")
        time.sleep(PERIOD)


def _look(follower: StoreFollower) -> Update:
    status = follower.status()
    state = run_info.state_of(status)
    if state is RunState.INTERRUPTED:
        # The supervisor may have written its last event between the two lines above.
        status = follower.status()
        state = run_info.state_of(status)
    return Update(status, state, follower.new_events())
