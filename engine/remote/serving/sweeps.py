"""The sweeps of this machine for another one: what is pushed of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from engine.remote.requests import SweepsNews
from engine.remote.serving.watches import Watch
from engine.remote.sweep_rows import SweepParts
from engine.sweeps.report import SweepIndex

SECONDS = 1.0
"""Between two looks at the sweeps."""


class SweepsWatch(Watch):
    """Pushes what has changed of the sweeps."""

    def __init__(self, number: int, push: Callable[[int, Any], None]) -> None:
        super().__init__(number, push)
        self._index = SweepIndex()
        self._parts = SweepParts()

    def _news(self) -> SweepsNews | None:
        return self._parts.news(self._index.read())

    def _pause(self) -> None:
        if not self._parts.has_more:
            self._closing.wait(SECONDS)
