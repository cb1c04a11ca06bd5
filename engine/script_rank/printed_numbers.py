"""Numbers as programs print them: with decimal points or commas, and with separated thousands."""

from __future__ import annotations

import re
from collections.abc import Iterable

NUMBER = r"[-+]?(?:\d+(?:[.,]\d+)*\.?|\.\d+)(?:[eE][-+]?\d+)?|[-+]?(?:nan|inf)\b"
"""A whole number with all its separators, for a regular expression without case."""

_GROUPED = re.compile(r"(?<=\d)['\u2019_\u00a0\u202f](?=\d{3}(?!\d))")
"""Separators of thousands that mean nothing else between digits."""

_THOUSANDS = re.compile(r"[-+]?[1-9]\d{0,2}(?:[.,]\d{3})+")


def without_groups(line: str) -> str:
    """Return a line whose numbers have no separators but points and commas."""
    return _GROUPED.sub("", line)


def decimal_of(number: str) -> str:
    """Return the decimal separator that a number shows by itself; empty: it shows none."""
    marks = [mark for mark in number if mark in ".,"]
    if not marks or not number[-1].isdigit():
        return "." if "." in marks and "," not in marks else ""
    if len(set(marks)) == 2:
        return marks[-1] if marks.count(marks[-1]) == 1 else ""
    if len(marks) > 1:
        return {".": ",", ",": "."}[marks[0]]
    return "" if _THOUSANDS.fullmatch(number) else marks[0]


class NumberReader:
    """Reads numbers by one rule: a line decides what a comma is, or else the lines before it."""

    def __init__(self) -> None:
        self._decimal = ""
        self._before = ""

    def begin_line(self, numbers: Iterable[str]) -> None:
        """Note the numbers of the next line."""
        shown = {decimal for number in numbers if (decimal := decimal_of(number))}
        if len(shown) == 1:
            self._before = self._before or min(shown)
            self._decimal = min(shown)
        else:
            self._decimal = "." if shown else self._before

    def value(self, number: str) -> float | None:
        """Return the value of a number of the line; None if it could be one or another."""
        decimal = decimal_of(number) or self._decimal
        if decimal == "," and self._decimal == "." and "," in number:
            return None  # the line has both forms
        if not decimal:
            decimal = "." if "," not in number else ""
        thousands = {".": ",", ",": "."}.get(decimal)
        if thousands is None:
            return None
        whole, _, _ = number.partition(decimal)
        if thousands in number and not _THOUSANDS.fullmatch(whole):
            return None
        try:
            return float(number.replace(thousands, "").replace(decimal, "."))
        except ValueError:
            return None
