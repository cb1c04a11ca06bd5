"""Every flag and positional of every command, as `tests/data/flags.toml` holds them."""

from __future__ import annotations

import argparse
import tomllib
from collections.abc import Mapping
from pathlib import Path

from engine.cli.parser import make_parser
from engine.spec.run_spec import FIELDS

FILE = Path(__file__).parents[2] / "data" / "flags.toml"
OF_ALL = ("-h --help", "--log-level")
FIELD_FLAGS = {"--" + name.replace("_", "-") for name in FIELDS}


def described(action: argparse.Action) -> str:
    """What a flag or positional takes, and what it is without a value."""
    takes = {0: "nothing", None: "one", "?": "at most one", "*": "any", "+": "some", "...": "any"}
    several = isinstance(action, argparse._AppendAction)
    text = "one, several times" if several else takes.get(action.nargs, f"{action.nargs}")
    if action.choices:
        text += f" of {'|'.join(map(str, action.choices))}"
    if action.required and action.option_strings:
        text += ", required"
    if action.default not in (None, False, True, "", "==SUPPRESS==", []):
        text += f", default {action.default}"
    return text


def shortened(own: Mapping[str, str]) -> list[str]:
    """One line for each flag; one line for those of the fields of a spec."""
    given = {name for name in own if name.split()[0] in FIELD_FLAGS}
    names = {name for name in own if name not in (*OF_ALL, *given)}
    lines = sorted(f"{name}: {own[name]}" for name in names)
    if given:
        without = " ".join(sorted(FIELD_FLAGS - {name.split()[0] for name in given}))
        lines.append(f"fields of a spec: all{f' but {without}' if without else ''}")
    return lines


def flags(parser: argparse.ArgumentParser, name: str = "") -> dict[str, list[str]]:
    """The flags of each command, by its name, and those of the fields of a spec."""
    found: dict[str, list[str]] = {}
    own = {}
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for word, command in action.choices.items():
                found |= flags(command, f"{name} {word}".lstrip())
        else:
            names = " ".join(action.option_strings)
            own[names or str(action.metavar or action.dest)] = described(action)
    found[name or "traindeck"] = shortened(own)
    if name == "train":
        fields = {each: text for each, text in own.items() if each.split()[0] in FIELD_FLAGS}
        found["fields of a spec"] = sorted(f"{each}: {text}" for each, text in fields.items())
    return found


def test_every_command_has_the_flags_that_it_had() -> None:
    assert flags(make_parser("")) == tomllib.loads(FILE.read_text())
