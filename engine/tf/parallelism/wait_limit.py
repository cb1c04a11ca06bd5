"""Limits the wait for a call that may never return."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class WaitLimit:
    """Makes one call at a time in its own thread, so that the wait for it can have a limit."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "wait-limit")

    def returns_within(self, seconds: float, call: Callable[[], object]) -> bool:
        """Return whether `call()` returned within `seconds`. Raises the exception of `call`.

        After the result false, this object cannot make another call.
        """
        waiting = self._thread.submit(call)
        try:
            waiting.result(seconds)
        except TimeoutError:
            if waiting.done():
                raise
            return False
        return True
