"""The ends of all that a supervisor waits for: workers that start, answer, mourn or leave."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

START_SECONDS = 300.0
"""Time for every worker to import its framework and to build its model."""

MOURNING_SECONDS = 1.0
"""Time between the first bad exit and the end of the rest: what they say helps to find why."""

LEAVE_SECONDS = 20.0
"""Time for the workers to leave after the last step; some libraries hang in their exit handlers."""

DRAIN_SECONDS = 2.0
"""Time for the last messages of a worker whose process is gone."""

STALL_SECONDS = 2.0
"""A supervisor that did not look for so long was held up itself: it blames nobody for silence."""


class AwakeClock:
    """Seconds during which its owner looked at it: a gap counts as STALL_SECONDS at the most.

    After a sleep of the machine, which some clocks count and others do not, nothing is overdue.
    """

    def __init__(self, source: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._looked = source()
        self._now = 0.0

    def __call__(self) -> float:
        now = self._source()
        self._now += min(now - self._looked, STALL_SECONDS)
        self._looked = now
        return self._now


class Deadlines:
    """Knows what is waited for, and since when. Times are seconds of `clock`."""

    def __init__(
        self,
        ranks: Iterable[int],
        start_seconds: float = START_SECONDS,
        longest_silence: float = math.inf,
        clock: Callable[[], float] | None = None,
    ) -> None:
        """`ranks` start now; once ready, each may be silent for `longest_silence` seconds."""
        clock = clock or AwakeClock()
        self.start_seconds = start_seconds
        self.longest_silence = longest_silence
        self._clock = clock
        self._starting = set(ranks)
        self._ready_by = clock() + start_seconds
        self._heard: dict[int, float] = {}
        self._looked = clock()
        self._end = math.inf

    def ready(self, rank: int) -> None:
        """A worker has started; from now on it shows signs of life."""
        self._starting.discard(rank)
        self._heard[rank] = self._clock()

    def heard(self, rank: int) -> None:
        """Whatever a worker says is a sign of life."""
        if rank in self._heard:
            self._heard[rank] = self._clock()

    def gone(self, rank: int) -> None:
        """Nothing is to be heard of `rank` any more."""
        self._heard.pop(rank, None)

    def start_failure_grace(self) -> None:
        """A worker failed: the others soon end too."""
        self._end = min(self._end, self._clock() + MOURNING_SECONDS)

    def leave(self) -> None:
        """The training is over."""
        self._end = self._clock() + LEAVE_SECONDS

    def drain(self) -> None:
        """All processes are gone."""
        self._end = self._clock() + DRAIN_SECONDS

    def late(self) -> list[int]:
        """Ranks that should have started by now."""
        return sorted(self._starting) if self._clock() > self._ready_by else []

    def silent(self) -> int | None:
        """The rank that has been silent for longest, if that is too long."""
        now, looked = self._clock(), self._looked
        self._looked = now
        if now - looked > STALL_SECONDS:
            self._heard = dict.fromkeys(self._heard, now)
        rank = min(self._heard, key=self._heard.__getitem__, default=None)
        if rank is None or now - self._heard[rank] <= self.longest_silence:
            return None
        return rank

    @property
    def over(self) -> bool:
        """Whether nothing more is waited for."""
        return self._clock() > self._end
