"""The sweeps of this machine for another one: what is pushed of them, and how one starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from engine.client import CannotStart
from engine.remote import requests
from engine.remote.requests import SweepsNews
from engine.remote.sent_code import keep
from engine.remote.serving.watches import Watch
from engine.remote.sweep_rows import SweepParts, unpacked_sweep
from engine.sweeps import sweep as sweeps
from engine.sweeps.proposal import first_problems
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


def start(request: requests.StartSweep) -> str:
    """Start a sweep, and return its number. Raises CannotStart, UnfitSettings, ValueError, OSError,
    and what `sweeps.drive` raises."""
    sweep = unpacked_sweep(request.sweep)
    if request.code is not None:
        base = msgspec.structs.replace(sweep.base, recipe=str(keep(request.code)))
        sweep = msgspec.structs.replace(sweep, base=base)
    if found := first_problems(sweep):
        raise CannotStart(found)
    folder = sweeps.create(sweep)
    sweeps.drive(folder)
    return folder.name
