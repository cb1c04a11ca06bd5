"""Each flag of a command reaches its function."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from inspect import signature
from typing import Any

from engine.cli.calls import arguments_of, function_of
from engine.cli.parser import make_parser

OF_ALL = {"help", "log_level", "machine"}
"""What every command may have, and no function gets."""


class Asked(dict[str, Any]):
    """Values of flags, and which of them were asked for."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        super().__init__(values)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.names.add(name)
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self.names.add(name)
        return super().get(name, default)


def commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """The parsers of the commands and actions."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield command
                yield from commands(command)


def test_a_function_gets_all_its_arguments_and_no_flag_is_ignored() -> None:
    for command in commands(make_parser("")):
        if command.prog.endswith(" env"):  # which needs an action
            continue
        flags = {
            action.dest
            for action in command._actions
            if not isinstance(action, argparse._SubParsersAction)
        }
        given = Asked(dict.fromkeys(flags | {"action"}))
        function = function_of(command.get_default("function"))
        found = arguments_of(function, given)
        engine = [None] if "engine" in signature(function).parameters else []
        signature(function).bind(*engine, **found)
        assert flags - OF_ALL <= given.names, command.prog
