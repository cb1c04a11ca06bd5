"""The deadlines of workers: to start, to send messages, to report a failure, and to exit."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable

from engine.messages.channel import Alive

START_SECONDS = 300.0
"""Time for all workers, once they are launched, to import their framework and build the model; and
once more whenever one has loaded more of a checkpoint."""

FAILURE_GRACE_SECONDS = 1.0
"""Time between the first failure and the end of the attempt. Other ranks may report the root cause
in this time."""

EXIT_SECONDS = 20.0
"""Time for the workers to exit after the last step; some libraries hang in their exit handlers."""

CUT_OFF_SECONDS = 2.0
"""Time between the end of a worker's connection and its exit. It closes the connection last."""

DRAIN_SECONDS = 2.0
"""Time for the last messages of the workers to arrive after all processes have exited."""

STALL_SECONDS = 2.0
"""A longer gap between two checks means that the supervisor or the machine was suspended. Then the
silence of a worker is no sign of a hang."""


class AwakeClock:
    """Counts the seconds between its calls, at most STALL_SECONDS for each gap.

    So a sleep of the machine, which some clocks count, makes no worker overdue.
    """

    def __init__(self, source: Callable[[], float] = time.monotonic) -> None:
        self._source = source
        self._last_call = source()
        self._now = 0.0

    def __call__(self) -> float:
        now = self._source()
        self._now += min(now - self._last_call, STALL_SECONDS)
        self._last_call = now
        return self._now


class Deadlines:
    """The deadlines of one attempt. Times are seconds of `clock`."""

    def __init__(
        self,
        ranks: Iterable[int],
        heartbeat_timeout: float,
        clock: Callable[[], float] | None = None,
        failure_grace: float = 0.0,
    ) -> None:
        """`ranks` start now; once ready, each may be silent for `heartbeat_timeout` seconds.

        `failure_grace`: seconds besides those that other ranks have to report a root cause.
        """
        clock = clock or AwakeClock()
        self.start_seconds = START_SECONDS
        self.heartbeat_timeout = heartbeat_timeout
        self._clock = clock
        self._failure_grace = FAILURE_GRACE_SECONDS + failure_grace
        self._starting = set(ranks)
        self._loads: dict[int, Alive] = {}
        self._ready_by = clock() + self.start_seconds
        self._last_message: dict[int, float] = {}
        self._last_check = clock()
        self._cut_off: dict[int, float] = {}
        self._end = math.inf

    def launched(self) -> None:
        """Note that the processes of all workers run: their time to start begins now."""
        self._ready_by = self._clock() + self.start_seconds

    def ready(self, rank: int) -> None:
        """Note that the worker of `rank` has started; from now on it sends signs of life."""
        self._starting.discard(rank)
        self._cut_off.pop(rank, None)  # that was the connection of an attempt before
        self._last_message[rank] = self._clock()

    def received(self, rank: int) -> None:
        """Note a message from `rank`; every message is a sign of life."""
        if rank in self._last_message:
            self._last_message[rank] = self._clock()

    def disconnected(self, rank: int) -> None:
        """Note that `rank` will send no more messages."""
        self._last_message.pop(rank, None)
        self._cut_off[rank] = self._clock()

    def loads(self, rank: int, alive: Alive) -> None:
        """Note that `rank` loads a checkpoint: if it gets on, all ranks have their time again."""
        if rank in self._starting and self._loads.get(rank) != alive:
            self._loads[rank] = alive
            self._ready_by = max(self._ready_by, self._clock() + self.start_seconds)

    def start_failure_grace(self) -> None:
        """Note that a worker failed: from now on, the other workers have a short time to report."""
        self._end = min(self._end, self._clock() + self._failure_grace)

    def leave_within(self, seconds: float) -> None:
        """Note that all workers were asked to save and leave."""
        self._end = min(self._end, self._clock() + seconds)

    def training_ended(self) -> None:
        """Note that the training is over: from now on, the processes have some time to exit."""
        self._end = self._clock() + EXIT_SECONDS

    def all_exited(self) -> None:
        """Note that all processes have exited: their last messages may still arrive."""
        self._end = self._clock() + DRAIN_SECONDS

    def late_ranks(self) -> list[int]:
        """Return the ranks that should have started by now."""
        return sorted(self._starting) if self._clock() > self._ready_by else []

    def silent_rank(self) -> int | None:
        """Return the rank whose last message is oldest, if that message is too old; else None."""
        now, last_check = self._clock(), self._last_check
        self._last_check = now
        if now - last_check > STALL_SECONDS:
            self._last_message = dict.fromkeys(self._last_message, now)
        rank = min(self._last_message, key=self._last_message.__getitem__, default=None)
        if rank is None or now - self._last_message[rank] <= self.heartbeat_timeout:
            return None
        return rank

    def cut_off_ranks(self) -> list[int]:
        """Return the ranks whose connection has ended so long ago that they should have exited."""
        latest = self._clock() - CUT_OFF_SECONDS
        return sorted(rank for rank, since in self._cut_off.items() if since < latest)

    @property
    def is_over(self) -> bool:
        """Whether the last deadline has passed."""
        return self._clock() > self._end
