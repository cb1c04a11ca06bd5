"""Follows a run by repeated reads of its store; prints nothing."""

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
from engine.runs.store.store_follower import StoreCursor, StoreFollower
from engine.runs.store.store_reader import MOST_EVENTS, RunReader, StoredEvent
from engine.system import paths

POLL_SECONDS = 0.1
"""Seconds between two reads; the supervisor commits about as often."""

START_SECONDS = 20.0
"""Time for a new supervisor to begin its attempt."""

ANSWER_SECONDS = 120.0
"""Time for a run to carry out a command; one step may take long."""

_Answer = TypeVar("_Answer")


class Update(NamedTuple):
    """The state of a run at one time."""

    status: RunStatus
    state: RunState
    events: list[StoredEvent]
    """Events since the last update."""


def updates(run_id: str, *, after: int, attempt: int) -> Iterator[Update]:
    """Yield updates of a run until it is over; the last one has the final state.

    The first one has the events after number `after`. Wait until attempt `attempt` has begun; raise
    NoAnswer if it does not begin. What the store cannot take, the supervisor tells.
    """
    with closing(_open(run_id, after)) as follower:
        deadline = time.monotonic() + START_SECONDS
        while True:
            update = _read_update(paths.run_folder(run_id), follower, after)
            after = update.events[-1].seq if update.events else after
            if update.status.attempt >= attempt:
                yield update
                if update.state.is_over and len(update.events) < MOST_EVENTS:
                    return
            elif time.monotonic() > deadline:
                raise NoAnswer(f"Run {run_id} did not begin within {START_SECONDS:.0f} s.")
            time.sleep(POLL_SECONDS)


def wait_for_event(run_id: str, kind: type[_Answer], *, after: int) -> _Answer:
    """Return the first event of `kind` after number `after`. Raises NoAnswer like `new_events`."""
    return next(event for event in new_events(run_id, after=after) if isinstance(event, kind))


def new_events(run_id: str, *, after: int) -> Iterator[Event]:
    """Yield the events after number `after` as they come in; the caller waits for one of them.

    Raises NoAnswer when the run refuses a command, ends, is halted, or takes longer than
    ANSWER_SECONDS.
    """
    deadline = time.monotonic() + ANSWER_SECONDS
    for update in updates(run_id, after=after, attempt=0):
        for stored in update.events:
            if isinstance(stored.event, CommandRefused):
                raise NoAnswer(stored.event.reason)
            yield stored.event
        check_halted(run_id)
        if time.monotonic() > deadline:
            raise NoAnswer(
                f"Run {run_id} has taken the command, but did not carry it out within "
                f"{ANSWER_SECONDS:.0f} s."
            )
    raise NoAnswer(
        f"Run {run_id} ended before it could answer: it is {client.get_run(run_id).state}."
    )


def check_halted(run_id: str) -> None:
    """Raise NoAnswer if the supervisor of the run was halted."""
    if halted := client.halted_sentence(run_id):
        raise NoAnswer(halted)


def last_seq(folder: Path) -> int:
    """Return the number of the newest event of the run in `folder`; 0 if there is no store yet."""
    try:
        with RunReader(folder) as reader:
            return reader.last_seq()
    except sqlite3.OperationalError:
        return 0


def newest_attempt(folder: Path) -> tuple[int, int]:
    """Return the number of the newest attempt of the run in `folder`, and of its first event.

    Raises sqlite3.Error.
    """
    with RunReader(folder) as reader:
        newest = reader.newest_event(lambda event: isinstance(event, AttemptStarted))
    assert newest is not None
    assert isinstance(newest.event, AttemptStarted)
    return newest.event.attempt, newest.seq


def _open(run_id: str, after: int) -> StoreFollower:
    """Open the store; wait if the supervisor has not created it yet. Raises NoAnswer."""
    follower = StoreFollower(paths.run_folder(run_id), StoreCursor(after))
    deadline = time.monotonic() + START_SECONDS
    while True:
        with suppress(sqlite3.OperationalError):  # it has no tables yet
            if follower.open():
                return follower
        if time.monotonic() > deadline:
            raise NoAnswer(f"Run {run_id} has no store: its supervisor wrote none.")
        time.sleep(POLL_SECONDS)


def _read_update(folder: Path, follower: StoreFollower, after: int) -> Update:
    status, state, _, unrecorded = run_info.present(folder, follower.status())
    if state is RunState.INTERRUPTED:
        # The supervisor may have written its last event between the two lines above.
        status = follower.status()
        state = run_info.state_of(folder, status)
    recorded = follower.new_events()
    known = recorded[-1].seq if recorded else after
    found = [*recorded, *(each for each in unrecorded if each.seq > known)]
    return Update(status, state, [each for each in found if each.seq > after])
