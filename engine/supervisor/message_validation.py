"""Checks the messages of workers: a recipe can write anything to the connection of its process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from engine.messages.channel import Alive, Flush, Message
from engine.messages.events import (
    EpochEnded,
    Event,
    Metrics,
    Notice,
    Rewound,
    WorkerEvent,
    WorkerFailed,
)
from engine.messages.merged_metrics import is_storable

MOST_SERIES = 10_000
"""Series of one run; a reader refuses a store with five times as many."""

MOST_CHARACTERS = 500_000
"""Characters of the names of all series: the status, which holds names, has a limit too."""


def is_valid(message: Message, rank: int, ranks: int) -> bool:
    """Return whether rank `rank` of `ranks` may send `message`, and its values can be stored."""
    if not 0 <= rank < ranks or not isinstance(message, Alive | Flush | WorkerEvent):
        return False
    if isinstance(message, Metrics):
        return is_storable(message)
    if getattr(message, "rank", rank) != rank:
        return False
    if isinstance(message, WorkerFailed) and message.shrunk:
        return is_valid(message.shrunk, rank, ranks)
    values = (getattr(message, name) for name in message.__struct_fields__)
    return all(value >= 0 for value in values if isinstance(value, int))


class SeriesLimit:
    """Leaves out the points of new series once a run has too many; the known ones go on.

    A recipe that gives its metrics a new name at each step would make its own curves unreadable.
    """

    def __init__(self, known: Iterable[str]) -> None:
        """`known` are the series that the store has, also from earlier attempts."""
        self._known = set(known)
        self._characters = sum(map(len, self._known))
        self._is_told = False

    def admit(self, event: Event) -> Iterator[Event]:
        """Yield what is to be recorded of `event`; the first time that something is left out, also
        a notice."""
        if isinstance(event, Metrics):
            names: Iterable[str] = (points.series for points in event.points)
        elif isinstance(event, EpochEnded | Rewound):
            names = event.metrics
        else:
            yield event
            return
        left_out = [name for name in names if name not in self._known and not self._add(name)]
        if not left_out:
            yield event
            return
        if isinstance(event, Metrics):
            kept = [points for points in event.points if points.series in self._known]
            event = msgspec.structs.replace(event, points=kept)
        else:
            known = {name: value for name, value in event.metrics.items() if name in self._known}
            event = msgspec.structs.replace(event, metrics=known)
        yield event  # also without points: it counts as an event of its rank
        if not self._is_told:
            self._is_told = True
            yield Notice(_left_out(left_out[0], full=len(self._known) >= MOST_SERIES))

    def _add(self, name: str) -> bool:
        """Return whether there may be one more series, `name`."""
        characters = self._characters + len(name)
        if len(self._known) >= MOST_SERIES or characters > MOST_CHARACTERS:
            return False
        self._known.add(name)
        self._characters = characters
        return True


def _left_out(name: str, *, full: bool) -> str:
    limit = f"has {MOST_SERIES:,} series" if full else "has series with very long names"
    most = "the most" if full else f"together at most {MOST_CHARACTERS:,} characters"
    shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
    return (
        f"The run {limit}, {most} that is recorded: {shown!r} and further new series are left out. "
        "Use a fixed set of names in the recipe."
    )


_SHOWN = 100
"""Characters of a name in a sentence."""
