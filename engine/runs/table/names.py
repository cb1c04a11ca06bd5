"""Finds the column that a name in an expression means, also a short one."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

from engine.runs.table.columns import ALIASES, OPTION, SETTINGS, Column, best_of, folded
from engine.spec.metric_direction import long_name

_MOST_OFFERED = 3


class UnknownName(Exception):
    """There is no such column; the text is a sentence with the nearest names."""

    def __init__(self, text: str, advice: str = "") -> None:
        """`advice`: a further sentence for an expression, where the word may be a text."""
        super().__init__(text)
        self.advice = advice


def find_column(name: str, columns: Mapping[str, Column], *, best: bool = False) -> Column:
    """Return the column that `name` means; `best`: the best value of that metric.

    Raises UnknownName.
    """
    for candidate in (name, ALIASES.get(name.lower(), ""), long_name(name)):
        if found := _get(candidate, columns, best):
            return found
    wanted = folded(name)
    ends = [
        column
        for column in columns.values()
        if "/" in column.name
        and bool(best) is column.name.startswith("best(")
        and folded(_bare(column)) == wanted
    ]
    if len(ends) > 1:  # of one metric, the validation counts
        ends = [each for each in ends if each.metric.startswith("validation/")] or ends
    if len(ends) == 1:
        return ends[0]
    if ends:
        names = " or ".join(_quoted(each.name) for each in ends[:_MOST_OFFERED])
        raise UnknownName(f"“{name}” may be {names}: write it in full.")
    raise _refusal(name, columns, best)


def short_names(columns: Mapping[str, Column]) -> list[str]:
    """Return what may be typed for a column: the names, and the short ones that mean one column."""
    found = list(columns)
    found += [alias for alias, name in ALIASES.items() if name in columns]
    for column in columns.values():
        if column.name.startswith((SETTINGS, OPTION)):
            found.append(_bare(column))
        if column.name.startswith("validation/"):
            found.append(column.name.replace("validation/", "val/"))
    return list(dict.fromkeys(found))


def nearest(word: str, words: Iterable[str]) -> list[str]:
    """Return the words that look most like `word`."""
    known = {each.lower(): each for each in words}
    return [
        known[each]
        for each in difflib.get_close_matches(word.lower(), known, _MOST_OFFERED, cutoff=0.6)
    ]


def _refusal(name: str, columns: Mapping[str, Column], best: bool) -> UnknownName:
    if best and find_quietly(name, columns):
        return UnknownName(f"No best value of “{name}” is kept, only of validation metrics.")
    near = nearest(long_name(name), [each for each in short_names(columns) if "(" not in each])
    if not near:
        return UnknownName(f"No run has “{name}”.", "To search for a text, put it in quotes.")
    names = " or ".join(_quoted(each) for each in near)
    return UnknownName(f"No run has “{name}”. Did you mean {names}?")


def find_quietly(name: str, columns: Mapping[str, Column]) -> Column | None:
    """Return the column that `name` means, or None."""
    try:
        return find_column(name, columns)
    except UnknownName:
        return None


def _get(name: str, columns: Mapping[str, Column], best: bool) -> Column | None:
    if not name:
        return None
    name = best_of(name) if best else name
    if name in columns:
        return columns[name]
    wanted = folded(name)
    return next((each for key, each in columns.items() if folded(key) == wanted), None)


def _bare(column: Column) -> str:
    return (column.metric or column.name).partition("/")[2]


def _quoted(name: str) -> str:
    return f"“{name}”"
