"""What the reader of the snapshots wants: lines of JSON that the helper reads from its input."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable

import msgspec

UNWATCHED_INTERVAL = 5.0
"""Seconds between snapshots, at least, while nobody looks at them."""


class Request(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line; what it does not mention stays as it is."""

    watching: bool | None = None
    """Whether somebody looks, and so wants the full rate."""

    detail: str | None = None
    """UUID of the GPU whose traffic is wanted; empty: of none."""


class Requests:
    """The wishes so far. Read by the sampling thread, changed by the one that reads the input."""

    def __init__(self) -> None:
        """Until told otherwise somebody looks, and at no GPU in detail."""
        self._watching = True
        self._detail = ""
        self._changed = threading.Event()

    @property
    def detail(self) -> str:
        """UUID of the GPU whose traffic is wanted, or an empty string."""
        return self._detail

    def follow(self, lines: Iterable[bytes]) -> None:
        """Take wishes from `lines` until there are none; says on stderr which line is none."""
        for line in lines:
            try:
                request = msgspec.json.decode(line, type=Request)
            except ValueError as error:
                print(
                    f"The telemetry helper does not understand {line!r}: {error}", file=sys.stderr
                )
                continue
            if request.watching is not None:
                self._watching = request.watching
            if request.detail is not None:
                self._detail = request.detail
            self._changed.set()

    def pause(self, interval: float) -> float:
        """Seconds between two snapshots, where `interval` is what a reader who looks wants."""
        return interval if self._watching else max(interval, UNWATCHED_INTERVAL)

    def wait(self, begin: float, interval: float) -> None:
        """Wait until the next snapshot is due, the last one having begun at `begin` (monotonic).

        A new wish ends the waiting: whoever comes back sees fresh figures at once.
        """
        self._changed.wait(max(0.0, begin + self.pause(interval) - time.monotonic()))
        self._changed.clear()
