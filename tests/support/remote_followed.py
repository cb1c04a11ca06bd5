"""Collects what a connection to another machine tells, and waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from engine.messages.events import Notice
from engine.remote.connection import LinkState, LinkStatus
from engine.runs.run_follower import Output, RunNews
from engine.runs.run_info import RunInfo

LONGEST = 60.0
"""Seconds; only a test that fails waits so long."""


class Followed:
    """Has the callbacks of one connection. A curve that comes twice or with a gap is seen."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.statuses: list[LinkStatus] = []
        self.steps: dict[str, list[float]] = {}
        self.texts: list[str] = []
        self.lines: list[str] = []
        self.troubles: list[str] = []
        self.runs: list[RunInfo] = []

    def take_status(self, status: LinkStatus) -> None:
        """For `Connection(on_status=...)`."""
        with self._changed:
            self.statuses.append(status)
            self._changed.notify_all()

    def take_runs(self, runs: list[RunInfo], *_: object) -> None:
        """For `Connection.watch_runs`."""
        with self._changed:
            self.runs = runs
            self._changed.notify_all()

    def take(self, news: RunNews) -> None:
        """For `Connection.follow`."""
        with self._changed:
            for series, points, replaces in news.curves:
                before = [] if replaces else self.steps[series]
                self.steps[series] = [*before, *points.step]
            for part in news.story:
                if isinstance(part, Output):
                    self.lines += part.lines
                else:
                    self.texts += [e.event.text for e in part if isinstance(e.event, Notice)]
            self.troubles += [news.trouble] if news.trouble else []
            self._changed.notify_all()

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait until `condition` holds."""
        with self._changed:
            assert self._changed.wait_for(condition, LONGEST), self.statuses[-3:]

    def wait_for_state(self, state: LinkState, after: int = 0) -> LinkStatus:
        """Wait for a state that was told after the first `after` ones."""

        def found() -> list[LinkStatus]:
            return [each for each in self.statuses[after:] if each.state is state]

        self.wait(lambda: bool(found()))
        return found()[0]
