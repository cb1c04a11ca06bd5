"""Stands in for the process that measures before a run: a function answers each request."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from engine.interface import local_engine
from engine.planning.measuring_process import MeasuringEnd
from engine.planning.requests import Answer, Request

Answers = Callable[[Request], list[Answer]]


def answer_requests(monkeypatch: pytest.MonkeyPatch, answers: Answers) -> None:
    """Let the engine of this machine get what `answers` returns for each request."""

    class Double:
        def __init__(self, request: Request) -> None:
            self._request = request

        def answers(self) -> Iterator[Answer]:
            yield from answers(self._request)

        def cancel(self) -> None:
            """As that of a process."""

        def wait_and_close(self) -> MeasuringEnd:
            return MeasuringEnd()

    monkeypatch.setattr(local_engine, "MeasuringProcess", Double)
