"""What may follow in an expression that is being typed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from engine.runs.run_info import RunInfo
from engine.runs.table.columns import Column, Kind, Value
from engine.runs.table.names import find_quietly, short_names

MOST = 40
"""Words that are offered at once."""

_PARTIAL = re.compile(r"[^\W\d][\w./-]*$")
_VALUE = re.compile(
    r"(?P<name>`[^`]+`|[^\W\d][\w./-]*)\s*(?P<sign>==?|!=|<>|!?~|:)\s*(?P<value>[\"']?[^\"'\s()]*)$"
)
_IN = re.compile(r"(?:^|[\s(])(?P<value>\"[^\"]*)$")
_KINDS = (Kind.TEXT, Kind.LIST, Kind.SETTING)
_MOST_VALUES = 200


class Completions(NamedTuple):
    """What may stand in the place of the text from `begin` to the cursor."""

    begin: int
    words: list[str]


def completions(
    text: str, cursor: int, columns: Mapping[str, Column], infos: Sequence[RunInfo]
) -> Completions:
    """Return what may stand where `cursor` is in `text`: names, or values after an operator."""
    before = text[:cursor]
    match = _VALUE.search(before)
    column = find_quietly(match["name"].strip("`"), columns) if match else None
    if match and column and column.kind in _KINDS:
        typed = match["value"].lstrip("\"'").casefold()
        found = [each for each in _values(column, infos) if typed in each.casefold()]
        found.sort(key=lambda each: (not each.casefold().startswith(typed), each.casefold()))
        return Completions(match.start("value"), [_quoted(each) for each in found[:MOST]])
    match = _PARTIAL.search(before)
    if match is None or _is_in_text(before):
        return Completions(cursor, [])
    typed = match[0].casefold()
    words = [*short_names(columns), "and", "or", "not", "in"]
    found = [each for each in words if typed in each.casefold()]
    if [each.casefold() for each in found] == [typed]:
        return Completions(cursor, [])
    found.sort(key=lambda each: _rank(each.casefold(), typed))  # otherwise in the usual order
    return Completions(match.start(), [_name(each) for each in found[:MOST]])


def _rank(word: str, typed: str) -> int:
    """Names that begin so come first, then those of which a part begins so."""
    if word.startswith(typed):
        return 0
    return 1 if re.search(rf"[/(_.]{re.escape(typed)}", word) else 2


def _values(column: Column, infos: Sequence[RunInfo]) -> list[str]:
    found: dict[str, None] = {}
    for info in infos:
        value: Value = column.read(info)
        for each in value if isinstance(value, tuple) else (value,):
            if isinstance(each, str) and each:
                found[each] = None
        if len(found) > _MOST_VALUES:
            break
    return list(found)


def _is_in_text(before: str) -> bool:
    return bool(_IN.search(before)) or before.count('"') % 2 == 1


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def _name(name: str) -> str:
    """Return a name as it is written in an expression."""
    inner = re.fullmatch(r"(best)\((.*)\)", name)
    if inner:
        return f"{inner[1]}({_name(inner[2])})"
    is_plain = re.fullmatch(r"[^\W\d]\w*(?:[./-]+\w+)*", name)
    return name if is_plain or name in ("and", "or", "not", "in") else f"`{name}`"
