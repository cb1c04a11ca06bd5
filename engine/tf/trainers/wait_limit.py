"""Waiting for something that may never happen, with an end."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class Patience:
    """Does one thing at a time in a thread of its own, so that a wait for it can be given up."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, "patience")

    def ends(self, wait: Callable[[], object], seconds: float) -> bool:
        """Whether `wait()` returned within `seconds`. Raises what it raises.

        When it did not, its thread is lost: this object, and soon this process, is done.
        """
        waiting = self._thread.submit(wait)
        try:
            waiting.result(seconds)
        except TimeoutError:
            if waiting.done():
                raise
            return False
        return True
