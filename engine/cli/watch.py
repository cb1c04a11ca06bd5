"""Waits for what a run does; prints nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from typing import TypeVar

from engine.cli.output import Unanswered
from engine.interface.engine import Engine
from engine.interface.news.run_news import RunUpdate
from engine.messages.events import CommandRefused, Event

START_SECONDS = 20.0
"""Time for a new supervisor to begin its attempt."""

ANSWER_SECONDS = 120.0
"""Time for a run to carry out a command; one step may take long."""

_Answer = TypeVar("_Answer")


def updates(engine: Engine, run: str, *, after: int, attempt: int) -> Iterator[RunUpdate]:
    """Yield updates of a run until it is over; the last one has the final state.

    The first one has the events after number `after`; -1: after the newest there is. One without
    events comes at least every second. Wait until attempt `attempt` has begun; raise Unanswered if
    it does not begin.
    """
    deadline = time.monotonic() + START_SECONDS
    newest: RunUpdate | None = None
    with closing(engine.watch_events(run, after, attempt)) as watch:
        for update in watch:
            newest = update or (newest and newest._replace(events=[]))
            if newest is not None and newest.status.attempt >= attempt:
                yield newest
            elif time.monotonic() > deadline:
                raise Unanswered(f"Run {run} did not begin within {START_SECONDS:.0f} s.")


def wait_for_event(engine: Engine, run: str, kind: type[_Answer], *, after: int) -> _Answer:
    """Return the first event of `kind` after number `after`. Raises as `new_events` does."""
    events = new_events(engine, run, after=after)
    return next(event for event in events if isinstance(event, kind))


def new_events(engine: Engine, run: str, *, after: int) -> Iterator[Event]:
    """Yield the events after number `after` as they come in; the caller waits for one of them.

    Raises Unanswered when the run refuses a command, ends, is halted, or takes longer than
    ANSWER_SECONDS.
    """
    deadline = time.monotonic() + ANSWER_SECONDS
    for update in updates(engine, run, after=after, attempt=0):
        for stored in update.events:
            if isinstance(stored.event, CommandRefused):
                raise Unanswered(stored.event.reason)
            yield stored.event
        check_halted(engine, run)
        if time.monotonic() > deadline:
            raise Unanswered(
                f"Run {run} has taken the command, but did not carry it out within "
                f"{ANSWER_SECONDS:.0f} s."
            )
    raise Unanswered(f"Run {run} ended before it could answer: it is {engine.get_run(run).state}.")


def check_halted(engine: Engine, run: str) -> None:
    """Raise Unanswered if the supervisor of the run was halted."""
    if halted := engine.explain_silence(run):
        raise Unanswered(halted)
