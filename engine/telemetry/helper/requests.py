"""Requests to the helper: lines of JSON on its standard input."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterable

import msgspec

from engine.telemetry.snapshot import Request

UNWATCHED_INTERVAL = 5.0
"""Least number of seconds between snapshots while no window shows them."""


class Requests:
    """The requests so far. The input thread changes them; the sampling thread reads them."""

    def __init__(self) -> None:
        self.detail = ""
        """UUID of the GPU whose traffic to measure, or an empty string."""

        self._watching = True
        self._changed = threading.Event()

    def follow(self, lines: Iterable[bytes]) -> None:
        """Apply the requests in `lines` to the end; print invalid lines on stderr."""
        for line in lines:
            try:
                request = msgspec.json.decode(line, type=Request)
            except ValueError as error:
                text = f"The telemetry helper does not understand {line!r}: {error}"
                print(text, file=sys.stderr)
                continue
            if request.watching is not None:
                self._watching = request.watching
            if request.detail is not None:
                self.detail = request.detail
            self._changed.set()

    def pause(self, interval: float) -> float:
        """Return the seconds between two snapshots; `interval` is the full rate."""
        return interval if self._watching else max(interval, UNWATCHED_INTERVAL)

    def wait(self, begin: float, interval: float) -> None:
        """Wait until the next snapshot is due; the last one began at `begin` (monotonic).

        A new request ends the wait at once.
        """
        self._changed.wait(max(0.0, begin + self.pause(interval) - time.monotonic()))
        self._changed.clear()
