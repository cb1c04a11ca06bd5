"""Templates that exist only in a test: what their client does, without a process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from engine.templates import client
from engine.templates.client import NoTemplate
from engine.templates.kinds import TemplateKind
from engine.templates.protocol import TemplateState


def template(kind: str = "torch", **facts: object) -> TemplateState:
    """The state of a template that is ready and idle, except for `facts`."""
    ready: dict[str, object] = {
        "pid": 4711, "is_ready": True, "workers": 0, "memory": 290 * 2**20, "idle_seconds": 7.0
    }  # fmt: skip
    return TemplateState(kind, **(ready | facts))  # type: ignore[arg-type]


class TemplateDouble:
    """Takes the place of `engine.templates.client`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_on = True
        self.running: dict[str, TemplateState] = {}
        """By kind."""

        self.starts: list[tuple[str, bool]] = []
        """Kind and `at_low_priority` of each start."""

        self.refusal = ""
        """Why no template can be started; empty: it can."""

        self.born: Callable[[str], TemplateState | None] = template
        """The state of a template that is started; None: it does not answer."""

        monkeypatch.setattr(client, "is_switched_on", lambda: self.is_on)
        for name in ("switch", "states", "start", "end_all"):
            monkeypatch.setattr(client, name, getattr(self, name))

    def switch(self, *, on: bool) -> None:
        self.is_on = on
        if not on:
            self.end_all()

    def states(self) -> list[TemplateState]:
        return list(self.running.values())

    def end_all(self) -> list[TemplateState]:
        ended = self.states()
        self.running.clear()
        return ended

    def start(self, kind: TemplateKind, *, at_low_priority: bool = False) -> None:
        self.starts.append((kind.name, at_low_priority))
        if self.refusal:
            raise NoTemplate(self.refusal)
        if kind.name not in self.running and (state := self.born(kind.name)):
            self.running[kind.name] = state
