"""The engine of another machine: each method is one call over a connection."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from engine.interface.encoding import Method, methods
from engine.interface.engine import Engine

Carry = Callable[[Method, Mapping[str, Any]], Any]
"""Calls a method there with these arguments, and returns what it returns."""


def remote_engine(machine: str, call: Carry) -> Engine:
    """Return the engine of the machine with this name; `call` is `Session.call`, or like it."""
    return cast(Engine, _RemoteEngine(machine, call))


class _RemoteEngine:
    """Has the methods of `Engine` by their annotations, so a new one costs no line here."""

    most_points = 4000  # about 20 kB
    questions_at_once = 8

    def __init__(self, machine: str, call: Carry) -> None:
        self.machine = machine
        self._call = call

    def __getattr__(self, name: str) -> Any:
        try:
            method = methods()[name]
        except KeyError:
            raise AttributeError(f"an engine has no method {name}") from None

        def call(*given: Any, **named: Any) -> Any:
            bound = method.signature.bind(self, *given, **named)
            del bound.arguments["self"]
            return self._call(method, bound.arguments)

        return call
