"""Reads an expression such as `lr<1e-3 and val/accuracy>0.9`, and checks runs with it.

```
any     = all { "or" all }
all     = one { ["and"] one }
one     = "not" one | "(" any ")" | comparison | text | name
compare = operand { ("=" "==" "!=" "<" "<=" ">" ">=" "~" "!~" ":" "in" "not in") operand }
operand = name | best(name) | last(name) | number | duration | date | text | list
```

The number of a run may have the name of its machine before it, as the table shows it: `gpus:27`.

A text alone is searched in name, recipe, strategy, state, tags and note. A name alone says that the
run has a value, or that it is yes. Names and texts are compared without regard to case.
"""

from __future__ import annotations

import operator
import re
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

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
from engine.runs.table.names import UnknownName, find_column
from engine.runs.table.tokens import FilterError, Token, TokenKind, day, tokens_of

RunTest = Callable[[RunInfo], bool]

DEEPEST = 40
"""Parentheses within each other."""

LONGEST_SEARCHED = 1000
"""Characters of a text in which a regular expression is looked for."""

_ORDERS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TEXT_ORDERS: Mapping[str, Callable[[str, str], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EQUAL = frozenset(("=", "=="))
_UNEQUAL = frozenset(("!=", "<>"))
COMPARISONS = frozenset((*_ORDERS, *_EQUAL, *_UNEQUAL, "~", "!~", ":"))
_DATES = {"now": None, "today": 0, "yesterday": 1}
_WORDS_OF_FLAGS = {"true": True, "yes": True, "false": False, "no": False}
_RESERVED = frozenset(("and", "or", "not", "in"))
_SEARCHED = ("name", "recipe", "strategy", "state", "tags", "note")


class _Operand(NamedTuple):
    """One side of a comparison: a column, a list, or what a token says."""

    token: Token
    end: int
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
    return _Parser(text, columns, now(), here).whole()


class _Parser:
    def __init__(self, text: str, columns: Mapping[str, Column], now: float, here: str) -> None:
        self._tokens = tokens_of(text)
        self._columns = columns
        self._now = now
        self._here = here
        self._place = 0
        self._depth = 0

    def whole(self) -> RunTest:
        test = self._any()
        if self._next.kind is not TokenKind.END:
            raise self._error(f"“{self._next.text}” is not expected here.")
        return test

    @property
    def _next(self) -> Token:
        return self._tokens[self._place]

    def _take(self) -> Token:
        token = self._next
        self._place += 1
        return token

    def _is_word(self, *words: str) -> bool:
        token = self._next
        if token.kind is TokenKind.SIGN:
            return token.text in words
        return token.kind is TokenKind.NAME and not token.is_quoted and token.text.lower() in words

    def _error(self, sentence: str, token: Token | None = None) -> FilterError:
        token = token or self._next
        return FilterError(sentence, token.begin, token.end)

    def _any(self) -> RunTest:
        checks = [self._all()]
        while self._is_word("or", "||"):
            self._take()
            checks.append(self._all())
        if len(checks) == 1:
            return checks[0]
        return lambda info: any(test(info) for test in checks)

    def _all(self) -> RunTest:
        checks = [self._one()]
        while True:
            if self._is_word("and", "&&"):
                self._take()
            elif self._ends_here():
                break
            checks.append(self._one())
        if len(checks) == 1:
            return checks[0]
        return lambda info: all(test(info) for test in checks)

    def _ends_here(self) -> bool:
        """Whether no further test follows."""
        token = self._next
        is_sign = token.kind is TokenKind.SIGN and token.text not in ("(", "!")
        return token.kind is TokenKind.END or is_sign or self._is_word("or")

    def _one(self) -> RunTest:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._error("There are too many parentheses within each other.")
        test = self._inner()
        self._depth -= 1
        return test

    def _inner(self) -> RunTest:
        if self._is_word("not", "!"):
            self._take()
            inner = self._one()
            return lambda info: not inner(info)
        if self._is_word("(") and not self._is_list():
            opened = self._take()
            test = self._any()
            if not self._is_word(")"):
                raise self._error("This parenthesis is never closed.", opened)
            self._take()
            return test
        return self._comparison()

    def _is_list(self) -> bool:
        """Whether the parenthesis here holds values with commas."""
        place = self._place + 1
        while self._tokens[place].kind in _IN_LISTS or self._tokens[place].text == ":":
            place += 1
            if self._tokens[place].text == ",":
                return True
        return False

    def _comparison(self) -> RunTest:
        left = self._operand(None)
        checks = []
        while True:
            begin = self._next
            sign = self._sign()
            if not sign:
                break
            right = self._operand(left if sign not in ("in", "not in") else None, sign)
            checks.append(self._compare(left, sign, right, begin))
            left = right
        if not checks:
            return self._alone(left)
        if len(checks) == 1:
            return checks[0]
        return lambda info: all(test(info) for test in checks)

    def _sign(self) -> str:
        if self._is_word(*COMPARISONS, "in"):
            return self._take().text.lower()
        after = self._tokens[self._place + 1] if self._is_word("not") else None
        if after and after.kind is TokenKind.NAME and after.text.lower() == "in":
            self._place += 2
            return "not in"
        return ""

    def _operand(self, before: _Operand | None, sign: str = "") -> _Operand:
        token = self._next
        if token.kind in _VALUES:
            self._take()
            return _Operand(token, token.end)
        if self._is_word("[", "("):
            return self._list()
        if token.kind is not TokenKind.NAME or self._is_word(*_RESERVED):
            what = f"“{token.text}” stands" if token.text else "The filter ends"
            raise self._error(f"{what} where a name or a value is expected.")
        self._take()
        if before is not None and before.column and _takes_colons(before.column):
            token = self._with_colons(token)
            if before.column.name == ID and _run_of_machine(token):
                return _Operand(token, token.end)
        name = str(token.value)
        if not token.is_quoted and self._is_word("(") and name.lower() in ("best", "last"):
            return self._call(token)
        if before is not None and self._is_plain_text(before, sign, name):
            return _Operand(token, token.end)
        if not token.is_quoted and self._is_moment(name, before):
            return _Operand(token, token.end)
        try:
            return _Operand(token, token.end, find_column(name, self._columns))
        except UnknownName as error:
            raise self._error(f"{error} {error.advice}".rstrip(), token) from None

    def _with_colons(self, token: Token) -> Token:
        """Return `token` with what follows it without a space after a colon: `cpu:0`."""
        while self._is_word(":") and self._next.begin == token.end and not token.is_quoted:
            after = self._tokens[self._place + 1]
            if after.begin != self._next.end or after.kind not in _AFTER_COLON:
                break
            text = f"{token.text}:{after.text}"
            token = Token(TokenKind.NAME, text, token.begin, after.end, text)
            self._place += 2
        return token

    def _is_plain_text(self, before: _Operand, sign: str, name: str) -> bool:
        """Whether a bare word on the right is a text: `state == failed`, `tag:paper`."""
        if before.column is None:
            return False
        if sign in (":", "~", "!~"):
            return True
        match before.column.kind:
            case Kind.FLAG:
                return name.lower() in _WORDS_OF_FLAGS
            case Kind.TEXT | Kind.LIST:
                other = self._columns.get(name)
                return other is None or other.kind is not before.column.kind
            case Kind.SETTING:
                return name not in self._columns
        return False

    def _is_moment(self, name: str, before: _Operand | None) -> bool:
        is_date = before is not None and before.column and before.column.kind is Kind.DATE
        is_next = self._next.text in _ORDERS
        return name.lower() in _DATES and bool(is_date or is_next)

    def _call(self, function: Token) -> _Operand:
        self._take()
        name = self._next
        if name.kind is not TokenKind.NAME:
            raise self._error(f"{function.text}(…) wants the name of a metric.")
        self._take()
        if not self._is_word(")"):
            raise self._error(f"“)” is expected after {function.text}({name.text}.")
        end = self._take().end
        is_best = function.text.lower() == "best"
        wanted = str(name.value)
        if not is_best and METRIC + wanted in self._columns:
            wanted = METRIC + wanted
        try:
            return _Operand(name, end, find_column(wanted, self._columns, best=is_best))
        except UnknownName as error:
            raise self._error(str(error), name) from None

    def _list(self) -> _Operand:
        opened = self._take()
        closing = "]" if opened.text == "[" else ")"
        items: list[Token] = []
        while not self._is_word(closing):
            if self._next.kind not in _IN_LISTS:
                raise self._error("This list is never closed.", opened)
            items.append(self._with_colons(self._take()))
            if self._is_word(","):
                self._take()
            elif self._next.kind is TokenKind.END:
                raise self._error("This list is never closed.", opened)
            elif not self._is_word(closing):
                raise self._error(f"“,” or “{closing}” is expected here.")
        return _Operand(opened, self._take().end, items=tuple(items))

    def _alone(self, operand: _Operand) -> RunTest:
        if (column := operand.column) is not None:
            read = column.read
            if column.kind is Kind.FLAG:
                return lambda info: read(info) is True
            return lambda info: not is_missing(read(info))
        if operand.token.kind is TokenKind.TEXT:
            return self._search(str(operand.token.value))
        text = operand.token.text
        raise self._error(f"“{text}” says nothing alone: compare a column with it.", operand.token)

    def _search(self, text: str) -> RunTest:
        wanted = text.casefold()
        reads = [self._columns[name].read for name in _SEARCHED if name in self._columns]
        return lambda info: any(wanted in _text_of(read(info)) for read in reads)

    def _compare(self, left: _Operand, sign: str, right: _Operand, at: Token) -> RunTest:
        if sign in ("in", "not in"):
            test = self._contained(left, right, at)
            return test if sign == "in" else lambda info: not test(info)
        if left.column is None and right.column is not None:
            if sign in ("~", "!~", ":"):
                raise self._error(f"The column stands on the left of “{sign}”.", at)
            left, sign, right = right, _TURNED.get(sign, sign), left
        if left.column is None:
            raise self._error("One side of a comparison must be a column.", left.token)
        if right.items is not None:
            raise self._error("A list follows “in”.", right.token)
        if sign in _UNEQUAL or sign == "!~":
            positive = self._compare(left, "==" if sign in _UNEQUAL else "~", right, at)
            return lambda info: not positive(info)
        if sign == "~":
            return self._match(left.column, right)
        if sign == ":" and not (left.column.name == ID and _run_of_machine(right.token)):
            return self._has(left.column, right)
        if right.column is not None:
            return self._between_columns(left.column, sign, right)
        return self._with_value(left.column, sign, right.token)

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
                wanted = _WORDS_OF_FLAGS.get(token.text.lower())
                if wanted is None or sign not in _EQUAL:
                    raise self._error(f"“{column.name}” is yes or no: write = yes.", token)
                return lambda info: column.read(info) is wanted
            case Kind.LIST:
                if sign not in _EQUAL:
                    raise self._error(f"“{column.name}” is a list: write “text” in it.", token)
                if not _written(token):
                    return lambda info: is_missing(column.read(info))
                return self._has(column, _Operand(token, token.end))
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
        if token.kind is not TokenKind.NUMBER or not isinstance(token.value, float):
            raise self._error(f"“{column.name}” is a number, and {token.text} is none.", token)
        return token.value

    def _seconds(self, column: Column, token: Token) -> float:
        is_right = token.kind in (TokenKind.NUMBER, TokenKind.DURATION)
        if not is_right or not isinstance(token.value, float):
            sentence = f"“{column.name}” is a duration: write such as 90s, 10min or 1h30m."
            raise self._error(sentence, token)
        return token.value

    def _moment(self, column: Column, token: Token) -> tuple[float, float]:
        if token.kind is TokenKind.DATE and isinstance(token.value, tuple):
            return token.value
        if token.kind is TokenKind.DURATION and isinstance(token.value, float) and token.value < 0:
            return self._now + token.value, self._now + token.value
        name = token.text.lower()
        if token.kind is TokenKind.NAME and name in _DATES:
            days = _DATES[name]
            return (self._now, self._now) if days is None else day(self._now, days)
        sentence = f"“{column.name}” is a date: write such as -7d, today or 2026-01-31."
        raise self._error(sentence, token)

    def _between_columns(self, left: Column, sign: str, right: _Operand) -> RunTest:
        other = right.column
        assert other is not None
        kinds = {left.kind, other.kind}
        if len(kinds) > 1 and Kind.SETTING not in kinds:
            sentence = f"“{left.name}” is {left.kind}, and “{other.name}” is {other.kind}."
            raise self._error(sentence, right.token)
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
            return _TEXT_ORDERS[sign](_text_of(one), _text_of(two))

        return test

    def _match(self, column: Column, right: _Operand) -> RunTest:
        pattern = _pattern(right.token)
        if problem := _slow_part(pattern):
            raise self._error(problem, right.token)
        try:
            search = re.compile(pattern, re.IGNORECASE).search
        except re.error as error:
            raise self._error(f"This is no regular expression: {error}.", right.token) from None
        read, is_text = column.read, column.kind is Kind.TEXT

        def test(info: RunInfo) -> bool:
            value = read(info)
            if value is None and is_text:  # no note is an empty one
                return bool(search(""))
            if isinstance(value, tuple):
                return any(search(each[:LONGEST_SEARCHED]) for each in value)
            return not is_missing(value) and bool(search(str(value)[:LONGEST_SEARCHED]))

        return test

    def _has(self, column: Column, right: _Operand) -> RunTest:
        wanted, read = _written(right.token).casefold(), column.read

        def test(info: RunInfo) -> bool:
            value = read(info)
            if isinstance(value, tuple):
                return any(each.casefold() == wanted for each in value)
            return not is_missing(value) and wanted in _text_of(value)

        return test

    def _contained(self, left: _Operand, right: _Operand, at: Token) -> RunTest:
        if right.items is not None:
            if left.column is None:
                raise self._error("A column stands on the left of a list.", left.token)
            checks = [self._with_value(left.column, "==", item) for item in right.items]
            return lambda info: any(test(info) for test in checks)
        if right.column is None:
            raise self._error("A column or a list follows “in”.", right.token)
        if left.column is not None and left.token.is_quoted:
            raise self._error("A text stands on the left of “in”.", at)
        if right.column.kind not in (Kind.LIST, Kind.TEXT, Kind.SETTING):
            sentence = f"“{right.column.name}” is {right.column.kind}: nothing can be in it."
            raise self._error(sentence, right.token)
        return self._has(right.column, left)


_AFTER_COLON = frozenset((TokenKind.NAME, TokenKind.NUMBER))
_WITH_TEXTS = frozenset((Kind.TEXT, Kind.LIST, Kind.SETTING))
_VALUES = frozenset((TokenKind.TEXT, TokenKind.NUMBER, TokenKind.DURATION, TokenKind.DATE))
_IN_LISTS = _VALUES | {TokenKind.NAME}


def _takes_colons(column: Column) -> bool:
    return column.kind in _WITH_TEXTS or column.name == ID


def _run_of_machine(token: Token) -> tuple[str, float] | None:
    """Return machine and number of `gpus:27`, also in quotes; None if a token is something else."""
    if token.kind not in (TokenKind.NAME, TokenKind.TEXT):
        return None
    machine, colon, number = str(token.value).rpartition(":")
    return (machine, float(number)) if colon and re.fullmatch("[0-9]+", number) else None


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
    compare = _TEXT_ORDERS.get(sign, _same)
    if not text and sign in _EQUAL:
        return lambda info: is_missing(read(info))

    def test(info: RunInfo) -> bool:
        value = read(info)
        return not is_missing(value) and compare(_text_of(value), text)

    return test


def _settings(column: Column, sign: str, token: Token) -> RunTest:
    """Compare numbers with a number, and texts with a text; other runs do not pass."""
    if token.kind is TokenKind.NUMBER and isinstance(token.value, float):
        with_number, written = _numbers(column, sign, token.value), token.text

        def test(info: RunInfo) -> bool:
            value = column.read(info)
            if isinstance(value, str):
                return sign in _EQUAL and value == written
            return number_of(value) is not None and with_number(info)

        return test
    flag = None if token.is_quoted else _WORDS_OF_FLAGS.get(token.text.lower())
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
    return str(token.value) if token.kind in (TokenKind.TEXT, TokenKind.NAME) else token.text


def _pattern(token: Token) -> str:
    """Return a token as a regular expression: there, a backslash is no escape of the text."""
    if token.kind is not TokenKind.TEXT:
        return _written(token)
    quote = token.text[0]
    return token.text[1:-1].replace("\\" + quote, quote)


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
