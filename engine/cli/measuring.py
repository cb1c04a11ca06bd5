"""Measures something before a run, by the engine of a machine, until it is done or Ctrl-C comes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from engine.cli.follow import CtrlC
from engine.cli.output import Interrupted, Refused, Unanswered, err
from engine.cli.transfers import tell_sent
from engine.interface import recipes
from engine.interface.engine import Engine
from engine.planning.requests import Refusal, Request
from engine.planning.results import News, Result

R = TypeVar("R", bound=Result)


def measure(
    engine: Engine, request: Request, kind: type[R], tell: Callable[[News], None], ctrl_c: CtrlC
) -> tuple[R, int]:
    """Return what was measured, and the number by which it is kept; 0: it is not.

    What Ctrl-C ends may have found something too. Raises Refused, Interrupted, Unanswered.
    """
    found: list[R | Refusal] = []

    def take(answer: News | Result | Refusal) -> None:
        if isinstance(answer, News):
            tell(answer)
        elif isinstance(answer, kind | Refusal):
            found.append(answer)

    sent = partial(tell_sent, engine.machine)
    end = recipes.measure(engine, request, take, ctrl_c.event, sent)
    if end.not_kept:
        err().print(end.not_kept, soft_wrap=True)
    match found:
        case [Refusal()] | [] if ctrl_c.count:
            raise Interrupted("The measurement was interrupted: it has found nothing.")
        case [Refusal(text)]:
            raise Refused(text)
        case [result] if isinstance(result, kind):
            return result, end.number
        case _:
            raise Unanswered(end.sentence)
