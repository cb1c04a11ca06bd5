"""Reads the plain values of Hydra's configuration files: a small part of YAML, without a parser.

Hydra's files are nested mappings of plain values. Lists, references and whatever else YAML has are
shown as the text that they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from engine.files.regular_file import read_regular

LARGEST_CONFIG = 2**20
"""Bytes."""

_LINE = re.compile(r"(?P<indent> *)(?P<key>[\w.@/-]+|'[^']+'|\"[^\"]+\")\s*:(?:\s+(?P<value>.*))?")
_GROUP = re.compile(r"\s*-\s+(?:override\s+)?(?P<group>[\w/@.-]+)\s*:\s*(?P<choice>[\w.-]+)\s*")
_COMMENT = re.compile(r"(?:^|\s)#.*$")
_INT = re.compile(r"[-+]?\d+")
_FLOAT = re.compile(r"[-+]?(?:\d+\.\d*|\.\d+|\d+)(?:[eE][-+]?\d+)?")
_HIDDEN = ("hydra", "defaults")

Value = bool | int | float | str


def config_values(folder: Path, name: str) -> list[tuple[str, Value | None, tuple[str, ...]]]:
    """Return key, value and choices of all values of the configuration `name` in `folder`.

    Keys are such as `optimizer.lr`. A group of files, such as `model: resnet`, is a value with
    choices. None: the value is null, or `???`. Raises nothing.
    """
    file = folder / name if name.endswith((".yaml", ".yml")) else folder / f"{name}.yaml"
    lines = _lines(file)
    found: list[tuple[str, Value | None, tuple[str, ...]]] = []
    for group, choice in _defaults(lines):
        choices = _files(folder / group)
        if choices:
            found.append((group, choice, choices))
        nested = _lines(folder / group / f"{choice}.yaml")
        is_global = any(line.strip().startswith("# @package _global_") for line in nested)
        prefix = "" if is_global else group.replace("/", ".") + "."
        found += [(prefix + key, value, ()) for key, value in _values(nested)]
    found += [(key, value, ()) for key, value in _values(lines)]
    return list({key: each for each in found for key in (each[0],)}.values())


def _lines(file: Path) -> list[str]:
    try:
        return read_regular(file, LARGEST_CONFIG, follow_links=True).decode().splitlines()
    except (OSError, ValueError):
        return []


def _files(folder: Path) -> tuple[str, ...]:
    try:
        return tuple(sorted(file.stem for file in folder.glob("*.yaml")))
    except OSError:
        return ()


def _defaults(lines: list[str]) -> Iterator[tuple[str, str]]:
    """Yield the groups of the list `defaults`, with the file that each takes."""
    inside = False
    for line in lines:
        text = _COMMENT.sub("", line).rstrip()
        if not text:
            continue
        if not text.startswith((" ", "-")):
            inside = text == "defaults:"
        elif inside and (match := _GROUP.fullmatch(text)):
            yield match["group"].partition("@")[0], match["choice"]


def _values(lines: list[str]) -> Iterator[tuple[str, Value | None]]:
    """Yield the values with their dotted keys."""
    open_keys: list[tuple[int, str]] = []
    for line in lines:
        text = _COMMENT.sub("", line).rstrip()
        match = _LINE.fullmatch(text)
        if match is None:
            continue
        indent, key = len(match["indent"]), match["key"].strip("'\"")
        while open_keys and open_keys[-1][0] >= indent:
            open_keys.pop()
        open_keys.append((indent, key))
        if open_keys[0][1] in _HIDDEN or not (value := match["value"]):
            continue
        yield ".".join(each for _, each in open_keys), _value(value.strip())


def _value(text: str) -> Value | None:
    if text in ("null", "~", "???"):
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if _INT.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text
