"""Makes the flags of the command line from the fields of a spec."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping
from typing import Any

import msgspec

from engine.facts.settings import RECIPE_DEFAULTS
from engine.spec.field_info import FieldInfo, Setting
from engine.spec.run_spec import FIELDS
from engine.spec.spec_fields import GROUPS

_METAVARS = {"int": "N", "float": "X", "str": "NAME"}


def add_options(
    parser: argparse.ArgumentParser, default: str = "", without: Collection[str] = ()
) -> None:
    """Add a flag for every field but those `without` to `parser`, under the heading of its group.

    `default` describes the value of a flag that is not given; empty: the default of the field.
    """
    fields = [info for info in FIELDS.values() if info.name not in without]
    used = {info.group for info in fields}
    groups = {name: parser.add_argument_group(name) for name in GROUPS if name in used}
    for info in fields:
        _add(groups[info.group], info, default or _default(info))


def given_options(given: Mapping[str, Any]) -> dict[str, Setting]:
    """Return the values of the flags that were given, by the names of their fields."""
    return {name: given[name] for name in FIELDS if given.get(name) is not None}


def _add(group: Any, info: FieldInfo, default: str) -> None:
    flag = "--" + info.name.replace("_", "-")
    about = f"{info.help(in_form=False)} (default: {default})".replace("%", "%%")
    if info.type == "bool":
        group.add_argument(
            flag, action=argparse.BooleanOptionalAction, default=None, dest=info.name, help=about
        )
        return
    metavar = "|".join(map(str, info.choices)) or _METAVARS[info.type]
    group.add_argument(flag, type=_reader(flag, info), metavar=metavar, dest=info.name, help=about)


def _reader(flag: str, info: FieldInfo) -> Callable[[str], Setting]:
    """Return the function that parses the flag. Limits are checked later, all together."""
    named = msgspec.structs.replace(info, name=flag, label="")

    def read(text: str) -> Setting:
        try:
            return named.parse(text)
        except ValueError as error:
            raise argparse.ArgumentError(None, str(error)) from None

    return read


def _default(info: FieldInfo) -> str:
    if info.name in RECIPE_DEFAULTS:
        return "the recipe's own"
    if isinstance(info.default, bool):
        return "yes" if info.default else "no"
    if isinstance(info.default, float):
        return f"{info.default:g}"
    return str(info.default) or "none"
