"""Waiting, for a limited time, for a call that may never return."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class WaitLimit:
    """Makes one call at a time in its own thread, so that waiting for it can end early."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "wait-limit")

    def returns_within(self, seconds: float, call: Callable[[], object]) -> bool:
        """Return whether `call()` returned within `seconds`. Raises what it raises.

        If it did not, the thread is lost: this object can make no other call.
        """
        waiting = self._thread.submit(call)
        try:
            waiting.result(seconds)
        except TimeoutError:
            if waiting.done():
                raise
            return False
        return True
