"""Reads an expression such as `lr<1e-3 and val/accuracy>0.9`, and checks runs with it.

The number of a run may have the name of its machine before it, as the table shows it: `gpus:27`.

A text alone is searched in name, recipe, strategy, state, tags and note. A name alone says that the
run has a value, or that it is yes. Names and texts are compared without regard to case.
"""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from engine.runs.run_info import RunInfo
from engine.runs.table.columns import (
    ID,
    METRIC,
    Column,
    Kind,
    Value,
    is_missing,
    number_of,
    place_of_run,
)
from engine.runs.table.grammar import FilterError, parsed
from engine.runs.table.literals import date, day, number, seconds, unquoted
from engine.runs.table.names import UnknownName, find_column

if TYPE_CHECKING:
    from lark import Token, Tree

RunTest = Callable[[RunInfo], bool]

DEEPEST = 40
"""Parentheses within each other."""

LONGEST_SEARCHED = 1000
"""Characters of a text in which a regular expression is looked for."""

_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
"""Of two numbers, or of two texts."""

_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EQUAL = frozenset(("=", "=="))
_UNEQUAL = frozenset(("!=", "<>"))
_DATES = {"now": None, "today": 0, "yesterday": 1}
_WORDS_OF_FLAGS = {"true": True, "yes": True, "false": False, "no": False}
_NAMES = frozenset(("NAME", "WORD", "QUOTED"))
_SEARCHED = ("name", "recipe", "strategy", "state", "tags", "note")


class _Operand(NamedTuple):
    """One side of a comparison: a column, a list, or what a token says."""

    token: Token
    column: Column | None = None
    items: tuple[Token, ...] | None = None


def compile_filter(
    text: str,
    columns: Mapping[str, Column],
    now: Callable[[], float] = time.time,
    here: str = "",
) -> RunTest:
    """Return the test that `text` describes; an empty text lets every run pass.

    `here`: what the person who asks from another machine calls this one. Raises FilterError, which
    names the place.
    """
    if not text.strip():
        return lambda info: True
    return _Builder(columns, now(), here).test(parsed(text))


class _Builder:
    """Makes tests of the parts of an expression."""

    def __init__(self, columns: Mapping[str, Column], now: float, here: str) -> None:
        self._columns = columns
        self._now = now
        self._here = here

    def test(self, tree: Tree[Token], depth: int = 0) -> RunTest:
        """Return the test that a tree describes. Raises FilterError."""
        if depth > DEEPEST:
            raise _error("There are too many parentheses within each other.", _first(tree))
        if tree.data == "comparison":
            return self._comparison(tree.children)
        parts = [self.test(each, depth + 1) for each in tree.children if not isinstance(each, str)]
        match tree.data:
            case "any_of":
                return lambda info: any(test(info) for test in parts)
            case "all_of":
                return lambda info: all(test(info) for test in parts)
            case _:
                return lambda info: not parts[0](info)

    def _comparison(self, parts: Sequence[Token | Tree[Token]]) -> RunTest:
        left = self._operand(parts[0], next_sign=str(parts[1]) if len(parts) > 1 else "")
        if len(parts) == 1:
            return self._alone(left)
        checks = []
        for at, part in zip(parts[1::2], parts[2::2], strict=True):
            assert isinstance(at, str)
            right = self._operand(part, left if at.type == "SIGN" else None, at)
            checks.append(self._compare(left, right, at))
            left = right
        if len(checks) == 1:
            return checks[0]
        return lambda info: all(test(info) for test in checks)

    def _operand(
        self,
        part: Token | Tree[Token],
        before: _Operand | None = None,
        at: Token | None = None,
        next_sign: str = "",
    ) -> _Operand:
        """Return one side of a comparison: `before` is the other one if it is on the right of the
        sign `at`; `next_sign` follows it."""
        if not isinstance(part, str):
            items = tuple(each for each in part.children if isinstance(each, str))
            if part.data == "call":
                return self._call(*items)
            return _Operand(at or items[0], items=items)
        if part.type not in _NAMES:
            return _Operand(part)
        name, column = _written(part), before.column if before else None
        if column and (
            (column.name == ID and _run_of_machine(part))
            or self._is_plain_text(column, str(at), name)
        ):
            return _Operand(part)
        is_date = next_sign in _ORDERS or (column and column.kind is Kind.DATE)
        if is_date and part.type != "QUOTED" and name.lower() in _DATES:
            return _Operand(part)
        try:
            return _Operand(part, find_column(name, self._columns))
        except UnknownName as error:
            raise _error(f"{error} {error.advice}".rstrip(), part) from None

    def _is_plain_text(self, column: Column, sign: str, name: str) -> bool:
        """Whether a bare word on the right is a text: `state == failed`, `tag:paper`."""
        if sign in (":", "~", "!~"):
            return True
        match column.kind:
            case Kind.FLAG:
                return name.lower() in _WORDS_OF_FLAGS
            case Kind.TEXT | Kind.LIST:
                other = self._columns.get(name)
                return other is None or other.kind is not column.kind
            case Kind.SETTING:
                return name not in self._columns
        return False

    def _call(self, function: Token, name: Token) -> _Operand:
        is_best = function.lower() == "best"
        wanted = _written(name)
        if not is_best and METRIC + wanted in self._columns:
            wanted = METRIC + wanted
        try:
            return _Operand(name, find_column(wanted, self._columns, best=is_best))
        except UnknownName as error:
            raise _error(str(error), name) from None

    def _alone(self, operand: _Operand) -> RunTest:
        if (column := operand.column) is not None:
            read = column.read
            if column.kind is Kind.FLAG:
                return lambda info: read(info) is True
            return lambda info: not is_missing(read(info))
        if operand.token.type == "TEXT":
            return self._search(_written(operand.token))
        sentence = f"“{operand.token}” says nothing alone: compare a column with it."
        raise _error(sentence, operand.token)

    def _search(self, text: str) -> RunTest:
        wanted = text.casefold()
        reads = [self._columns[name].read for name in _SEARCHED if name in self._columns]
        return lambda info: any(wanted in _text_of(read(info)) for read in reads)

    def _compare(self, left: _Operand, right: _Operand, at: Token) -> RunTest:
        if at.type != "SIGN":
            test = self._contained(left, right, at)
            return test if at.type == "IN" else lambda info: not test(info)
        sign = str(at)
        if left.column is None and right.column is not None:
            if sign in ("~", "!~", ":"):
                raise _error(f"The column stands on the left of “{sign}”.", at)
            left, sign, right = right, _TURNED.get(sign, sign), left
        if left.column is None:
            raise _error("One side of a comparison must be a column.", left.token)
        if sign in _UNEQUAL or sign == "!~":
            positive = self._positive(left.column, "==" if sign in _UNEQUAL else "~", right)
            return lambda info: not positive(info)
        return self._positive(left.column, sign, right)

    def _positive(self, column: Column, sign: str, right: _Operand) -> RunTest:
        if sign == "~":
            return self._match(column, right)
        if sign == ":" and not (column.name == ID and _run_of_machine(right.token)):
            return self._has(column, right.token)
        if right.column is not None:
            return self._between_columns(column, sign, right)
        return self._with_value(column, sign, right.token)

    def _with_value(self, column: Column, sign: str, token: Token) -> RunTest:
        match column.kind:
            case Kind.NUMBER:
                if column.name == ID and (run := _run_of_machine(token)):
                    return self._of_machine(column, sign, *run)
                return _numbers(column, sign, self._number(column, token))
            case Kind.DURATION:
                return _numbers(column, sign, self._seconds(column, token))
            case Kind.DATE:
                return _dates(column, sign, *self._moment(column, token))
            case Kind.FLAG:
                wanted = _WORDS_OF_FLAGS.get(token.lower())
                if wanted is None or sign not in _EQUAL:
                    raise _error(f"“{column.name}” is yes or no: write = yes.", token)
                return lambda info: column.read(info) is wanted
            case Kind.LIST:
                if sign not in _EQUAL:
                    raise _error(f"“{column.name}” is a list: write “text” in it.", token)
                if not _written(token):
                    return lambda info: is_missing(column.read(info))
                return self._has(column, token)
            case Kind.TEXT:
                return _texts(column, sign, _written(token))
            case Kind.SETTING:
                return _settings(column, sign, token)

    def _of_machine(self, column: Column, sign: str, machine: str, number: float) -> RunTest:
        with_number = _numbers(column, sign, number)

        def test(info: RunInfo) -> bool:
            place = place_of_run(info)[0] or self._here
            return place.casefold() == machine.casefold() and with_number(info)

        return test

    def _number(self, column: Column, token: Token) -> float:
        if token.type != "NUMBER":
            raise _error(f"“{column.name}” is a number, and {token} is none.", token)
        return number(token)

    def _seconds(self, column: Column, token: Token) -> float:
        if token.type == "NUMBER":
            return number(token)
        if token.type == "DURATION":
            return seconds(token)
        sentence = f"“{column.name}” is a duration: write such as 90s, 10min or 1h30m."
        raise _error(sentence, token)

    def _moment(self, column: Column, token: Token) -> tuple[float, float]:
        if token.type == "DATE":
            return date(token, token.start_pos or 0)
        if token.type == "DURATION" and token.startswith("-"):
            moment = self._now + seconds(token)
            return moment, moment
        name = token.lower()
        if token.type in ("NAME", "WORD") and name in _DATES:
            days = _DATES[name]
            return (self._now, self._now) if days is None else day(self._now, days)
        sentence = f"“{column.name}” is a date: write such as -7d, today or 2026-01-31."
        raise _error(sentence, token)

    def _between_columns(self, left: Column, sign: str, right: _Operand) -> RunTest:
        other = right.column
        assert other is not None
        kinds = {left.kind, other.kind}
        if len(kinds) > 1 and Kind.SETTING not in kinds:
            sentence = f"“{left.name}” is {left.kind}, and “{other.name}” is {other.kind}."
            raise _error(sentence, right.token)
        compare = _ORDERS.get(sign)

        def test(info: RunInfo) -> bool:
            one, two = left.read(info), other.read(info)
            if is_missing(one) or is_missing(two):
                return False
            if compare is None:
                return one == two or _text_of(one) == _text_of(two)
            numbers = number_of(one), number_of(two)
            if numbers[0] is not None and numbers[1] is not None:
                return compare(numbers[0], numbers[1])
            return compare(_text_of(one), _text_of(two))

        return test

    def _match(self, column: Column, right: _Operand) -> RunTest:
        pattern = _pattern(right.token)
        if problem := _slow_part(pattern):
            raise _error(problem, right.token)
        try:
            search = re.compile(pattern, re.IGNORECASE).search
        except re.error as error:
            raise _error(f"This is no regular expression: {error}.", right.token) from None
        read, is_text = column.read, column.kind is Kind.TEXT

        def test(info: RunInfo) -> bool:
            value = read(info)
            if value is None and is_text:  # no note is an empty one
                return bool(search(""))
            if isinstance(value, tuple):
                return any(search(each[:LONGEST_SEARCHED]) for each in value)
            return not is_missing(value) and bool(search(str(value)[:LONGEST_SEARCHED]))

        return test

    def _has(self, column: Column, token: Token) -> RunTest:
        wanted, read = _written(token).casefold(), column.read

        def test(info: RunInfo) -> bool:
            value = read(info)
            if isinstance(value, tuple):
                return any(each.casefold() == wanted for each in value)
            return not is_missing(value) and wanted in _text_of(value)

        return test

    def _contained(self, left: _Operand, right: _Operand, at: Token) -> RunTest:
        if right.items is not None:
            if left.column is None:
                raise _error("A column stands on the left of a list.", left.token)
            checks = [self._with_value(left.column, "==", item) for item in right.items]
            return lambda info: any(test(info) for test in checks)
        if right.column is None:
            raise _error("A column or a list follows “in”.", right.token)
        if left.column is not None and left.token.type == "QUOTED":
            raise _error("A text stands on the left of “in”.", at)
        if right.column.kind not in (Kind.LIST, Kind.TEXT, Kind.SETTING):
            sentence = f"“{right.column.name}” is {right.column.kind}: nothing can be in it."
            raise _error(sentence, right.token)
        return self._has(right.column, left.token)


def _error(sentence: str, token: Token) -> FilterError:
    return FilterError(sentence, token.start_pos or 0, token.end_pos or 0)


def _first(tree: Tree[Token]) -> Token:
    part: Token | Tree[Token] = tree
    while not isinstance(part, str):
        part = part.children[0]
    return part


def _run_of_machine(token: Token) -> tuple[str, float] | None:
    """Return machine and number of `gpus:27`, also in quotes; None if a token is something else."""
    if token.type not in ("TEXT", *_NAMES):
        return None
    machine, colon, run = _written(token).rpartition(":")
    return (machine, float(run)) if colon and re.fullmatch("[0-9]+", run) else None


def _same(one: object, two: object) -> bool:
    return one == two


def _numbers(column: Column, sign: str, wanted: float) -> RunTest:
    read, compare = column.read, _ORDERS.get(sign, _same)

    def test(info: RunInfo) -> bool:
        value = number_of(read(info))
        return value is not None and compare(value, wanted)

    return test


def _dates(column: Column, sign: str, first: float, last: float) -> RunTest:
    """Compare with a moment, or with a whole day: what is after a day is not on it."""
    read = column.read
    inside: Callable[[float], bool] = {
        "<": lambda at: at < first,
        "<=": lambda at: at < last or at == first,
        ">": lambda at: at >= last and at != first,
        ">=": lambda at: at >= first,
    }.get(sign, lambda at: first <= at < last or at == first)

    def test(info: RunInfo) -> bool:
        value = number_of(read(info))
        return value is not None and inside(value)

    return test


def _texts(column: Column, sign: str, wanted: str) -> RunTest:
    read, text = column.read, wanted.casefold()
    compare = _ORDERS.get(sign, _same)
    if not text and sign in _EQUAL:
        return lambda info: is_missing(read(info))

    def test(info: RunInfo) -> bool:
        value = read(info)
        return not is_missing(value) and compare(_text_of(value), text)

    return test


def _settings(column: Column, sign: str, token: Token) -> RunTest:
    """Compare numbers with a number, and texts with a text; other runs do not pass."""
    if token.type == "NUMBER":
        with_number, written = _numbers(column, sign, number(token)), str(token)

        def test(info: RunInfo) -> bool:
            value = column.read(info)
            if isinstance(value, str):
                return sign in _EQUAL and value == written
            return number_of(value) is not None and with_number(info)

        return test
    flag = _WORDS_OF_FLAGS.get(token.lower())  # a text has its quotes here
    with_text = _texts(column, sign, _written(token))

    def either(info: RunInfo) -> bool:
        value = column.read(info)
        if isinstance(value, bool):
            return sign in _EQUAL and value is flag
        return (value is None or isinstance(value, str)) and with_text(info)

    return either


def _text_of(value: Value) -> str:
    if isinstance(value, tuple):
        return "\n".join(value).casefold()
    return "" if value is None else str(value).casefold()


def _written(token: Token) -> str:
    """Return a token as a text: what is in quotes, or how it is written."""
    match token.type:
        case "TEXT":
            return unquoted(token)
        case "QUOTED":
            return token[1:-1]
        case _:
            return str(token)


def _pattern(token: Token) -> str:
    """Return a token as a regular expression: there, a backslash is no escape of the text."""
    if token.type != "TEXT":
        return _written(token)
    quote = token[0]
    return token[1:-1].replace("\\" + quote, quote)


def _slow_part(pattern: str) -> str:
    """Return why a pattern may take for ever; empty if it does not.

    Python's regular expressions try every way to split a text over repetitions in each other, and
    nothing can end them from outside.
    """
    groups = [False]
    place = 0
    while place < len(pattern):
        char = pattern[place]
        if char == "\\":
            place += 1
        elif char == "[":
            end = pattern.find("]", place + 2)
            place = len(pattern) if end < 0 else end
        elif char == "(":
            groups.append(False)
        elif char == ")" and len(groups) > 1:
            repeats = groups.pop()
            follows = pattern[place + 1 : place + 2]
            if repeats and follows in ("*", "+", "{"):
                return "A repetition within a repetition may take for ever: write it without."
            groups[-1] = groups[-1] or repeats
        elif char in "*+{|":
            groups[-1] = True
        place += 1
    return ""
