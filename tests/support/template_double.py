"""Templates that exist only in a test: what their client does, without a process."""

from __future__ import annotations

import pytest

from engine.templates import client
from engine.templates.client import NoTemplate
from engine.templates.kinds import TemplateKind
from engine.templates.protocol import TemplateState


def template(kind: str = "torch", **facts: object) -> TemplateState:
    """The state of a template that is ready and idle, except for `facts`."""
    return TemplateState(kind, **({"pid": 4711, "workers": 0} | facts))  # type: ignore[arg-type]


class TemplateDouble:
    """Takes the place of `engine.templates.client`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_on = True
        self.running: dict[str, TemplateState] = {}
        """By kind."""

        self.starts: list[str] = []
        """The kind of each start."""

        self.refusal = ""
        """Why no template can be started; empty: it can."""

        monkeypatch.setattr(client, "is_switched_on", lambda: self.is_on)
        for name in ("switch", "states", "start", "end_all"):
            monkeypatch.setattr(client, name, getattr(self, name))

    def switch(self, *, on: bool) -> None:
        self.is_on = on
        if not on:
            self.end_all()

    def states(self) -> list[TemplateState]:
        return list(self.running.values())

    def end_all(self) -> None:
        self.running.clear()

    def start(self, kind: TemplateKind) -> None:
        self.starts.append(kind.name)
        if self.refusal:
            raise NoTemplate(self.refusal)
        self.running.setdefault(kind.name, template(kind.name))
