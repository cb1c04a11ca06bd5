"""News of a run, in parts that the window shows in a short turn each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from engine.runs.run_follower import Output, RunNews
from engine.runs.store.store_reader import StoredEvent

T = TypeVar("T")

MOST_CURVES, MOST_LINES, MOST_EVENTS = 1, 200, 100


def parts_of(news: RunNews) -> Iterator[RunNews]:
    """Yield the news of a run in parts, in their order."""
    parts = [
        *(RunNews(curves) for curves in _pieces(news.curves, MOST_CURVES)),
        *(RunNews(story=[part]) for whole in news.story for part in _short(whole)),
    ]
    parts = parts or [RunNews()]
    parts[0] = parts[0]._replace(series=news.series)
    parts[-1] = parts[-1]._replace(info=news.info)
    for part in parts:
        yield part._replace(trouble=news.trouble, cursor=news.cursor)


def _short(part: Sequence[StoredEvent] | Output) -> Iterator[Sequence[StoredEvent] | Output]:
    if not isinstance(part, Output):
        yield from _pieces(part, MOST_EVENTS)
        return
    for number, lines in enumerate(_pieces(part.lines, MOST_LINES)):
        yield Output(part.rank, lines, part.has_gaps and number == 0)


def _pieces(whole: Sequence[T], most: int) -> Iterator[Sequence[T]]:
    for begin in range(0, len(whole), most):
        yield whole[begin : begin + most]
