"""Ends a chunk of steps early, after the same step on all ranks, without a collective.

Rank 0 ends one when a command waits or its steps have become slow. It lets the other ranks begin a
few steps more than it has begun itself, in a page of memory that the ranks of this machine share:
it only adds steps, so what it has written last is what all of them do.
"""

from __future__ import annotations

import mmap
import os
import time
from collections.abc import Callable
from pathlib import Path

from engine.files.scratch_folder import shared_page

SCRATCH = "TRAINDECK_SCRATCH"
"""The environment variable with the scratch folder of the attempt."""

LONGEST_CHUNK = 1.0
"""Seconds after which a chunk ends: its steps have become slower than those before it."""

AHEAD = 2
"""Steps that another rank may begin beyond the one that rank 0 has begun. It does them anyway:
ranks wait for each other in every step."""

_SPINS = 50
_WAIT_SECONDS = 0.0002
_CLOSED = 1


class EarlyEnd:
    """One rank's part; all ranks call `begin`, then `goes_on` before each step of the chunk."""

    def __init__(self, rank: int, ranks: int, wants_end: Callable[[], bool]) -> None:
        """`wants_end` returns whether the chunk should end now; only that of rank 0 counts."""
        self._is_first = rank == 0
        self._ranks = ranks
        self._wants_end = wants_end
        self._words = _shared_words() if ranks > 1 else None
        self._chunk = 0
        self._count = self._limit = 0
        self._begun = 0.0
        self._is_closed = False

    def agree(self, agree: Callable[[tuple[int, int]], tuple[int, int]]) -> None:
        """Find out whether all ranks have the page; without it, chunks never end early."""
        if self._ranks > 1 and any(agree((int(self._words is None), 0))):
            self._words = None

    def begin(self, count: int) -> None:
        """Begin a chunk of `count` steps."""
        self._chunk += 1
        self._count, self._is_closed = count, False
        self._begun = time.perf_counter()
        self._limit = 1 if self._ranks == 1 else min(count, 1 + AHEAD)
        if self._is_first:
            self._publish()

    def goes_on(self, number: int) -> bool:
        """Return whether step `number` (from 0) of the chunk is done: the same on every rank."""
        if self._ranks == 1:
            return not number or not self._is_due()
        if self._words is None:
            return True
        return self._permit(number) if self._is_first else self._wait(number)

    def _permit(self, number: int) -> bool:
        if not self._is_closed and number + 1 + AHEAD > self._limit < self._count:
            if number and self._is_due():
                self._is_closed = True
            else:
                self._limit = min(self._count, number + 1 + AHEAD)
            self._publish()
        return number < self._limit

    def _wait(self, number: int) -> bool:
        """Wait until rank 0 permits the step, or says that there is none."""
        assert self._words is not None
        turns = 0
        while True:
            chunk, rest = divmod(self._words[0], 1 << 32)
            if chunk == self._chunk:
                if number < rest >> 1:
                    return True
                if rest & _CLOSED or number >= self._count:
                    return False
            turns += 1
            time.sleep(0 if turns < _SPINS else _WAIT_SECONDS)

    def _is_due(self) -> bool:
        return self._wants_end() or time.perf_counter() - self._begun > LONGEST_CHUNK

    def _publish(self) -> None:
        if self._words is not None:  # one write of eight bytes
            self._words[0] = self._chunk << 32 | self._limit << 1 | self._is_closed


def _shared_words() -> memoryview | None:
    """Map the page that the ranks share; None if there is none."""
    if os.environ.get("LOCAL_WORLD_SIZE") != os.environ.get("WORLD_SIZE"):
        return None  # ranks of another machine cannot map it
    folder = os.environ.get(SCRATCH)
    page = shared_page(Path(folder)) if folder else None
    if page is None:
        return None
    try:
        with page.open("r+b") as file:
            return memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")
    except (OSError, ValueError):
        return None
