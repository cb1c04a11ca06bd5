"""Splits an expression into words, numbers, texts, dates and operators, each with its place."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from enum import Enum, auto
from typing import NamedTuple

LONGEST = 4000
"""Characters of an expression."""


class FilterError(Exception):
    """An expression cannot be read; the text is a sentence."""

    def __init__(self, sentence: str, begin: int, end: int) -> None:
        """The characters from `begin` to before `end` are at fault."""
        super().__init__(sentence)
        self.begin = begin
        self.end = max(end, begin + 1)

    def pointing(self, text: str) -> str:
        """Return the line of `text` with a line of marks below the place."""
        marks = " " * self.begin + "^" * (max(1, min(self.end, len(text)) - self.begin))
        return f"{text}\n{marks}"


class TokenKind(Enum):
    """What a token is."""

    NAME = auto()
    TEXT = auto()
    NUMBER = auto()
    DURATION = auto()
    """Seconds."""

    DATE = auto()
    """The first and the last moment, as a pair of seconds since the epoch."""

    SIGN = auto()
    END = auto()


class Token(NamedTuple):
    """One token; `text` is how it is written."""

    kind: TokenKind
    text: str
    begin: int
    end: int
    value: str | float | tuple[float, float] = ""
    is_quoted: bool = False


_PATTERN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
  | (?P<quoted>`[^`]+`)
  | (?P<date>\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d)?)?(?!\w))
  | (?P<duration>[-+]?(?:\d+(?:\.\d+)?(?:min|[wdhms]))+(?!\w))
  | (?P<number>[-+]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?[kMG%]?(?![\w.]))
  | (?P<name>[^\W\d]\w*(?:[./-]+\w+)*)
  | (?P<sign>==|!=|<>|<=|>=|!~|&&|\|\||[=<>~:()\[\],!])
    """,
    re.VERBOSE,
)
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)(min|[wdhms])")
_SECONDS = {"w": 604_800.0, "d": 86_400.0, "h": 3600.0, "min": 60.0, "m": 60.0, "s": 1.0}
_FACTORS = {"k": 1e3, "M": 1e6, "G": 1e9, "%": 0.01}


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of `text`, and one of kind END. Raises FilterError."""
    if len(text) > LONGEST:
        raise FilterError(f"A filter has at most {LONGEST:,} characters.", LONGEST, len(text))
    found, place = [], 0
    while place < len(text):
        match = _PATTERN.match(text, place)
        if match is None:
            raise _unreadable(text, place)
        if match.lastgroup != "space":
            found.append(_token(match))
        place = match.end()
    found.append(Token(TokenKind.END, "", len(text), len(text)))
    return found


def _token(match: re.Match[str]) -> Token:
    text, place = match[0], match.span()
    match match.lastgroup:
        case "text":
            value = re.sub(rf"\\([\\{text[0]}])", r"\1", text[1:-1])
            return Token(TokenKind.TEXT, text, *place, value, is_quoted=True)
        case "quoted":
            return Token(TokenKind.NAME, text, *place, text[1:-1], is_quoted=True)
        case "date":
            return Token(TokenKind.DATE, text, *place, _date(text, *place))
        case "duration":
            seconds = sum(float(each[1]) * _SECONDS[each[2]] for each in _AMOUNT.finditer(text))
            return Token(TokenKind.DURATION, text, *place, -seconds if text[0] == "-" else seconds)
        case "number":
            factor = _FACTORS.get(text[-1], 1.0)
            digits = text[:-1] if text[-1] in _FACTORS else text
            return Token(TokenKind.NUMBER, text, *place, float(digits.replace("_", "")) * factor)
        case "name":
            return Token(TokenKind.NAME, text, *place, text)
        case _:
            return Token(TokenKind.SIGN, text, *place)


def _date(text: str, begin: int, end: int) -> tuple[float, float]:
    try:
        first = datetime.fromisoformat(text)
    except ValueError:
        raise FilterError(f"{text} is no date.", begin, end) from None
    if "T" in text:
        return first.timestamp(), first.timestamp()
    return first.timestamp(), (first + timedelta(days=1)).timestamp()


def day(now: float, days_before: int = 0) -> tuple[float, float]:
    """Return the first and the last moment of the day of `now`, or of one before it."""
    midnight = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
    first = midnight - timedelta(days=days_before)
    return first.timestamp(), (first + timedelta(days=1)).timestamp()


def _unreadable(text: str, place: int) -> FilterError:
    if text[place] in "\"'":
        return FilterError("This text has no closing quote.", place, len(text))
    if text[place] == "`":
        return FilterError("This name has no closing backquote.", place, len(text))
    end = place + 1
    while end < len(text) and not text[end].isspace() and text[end] not in "()[],<>=!~":
        end += 1
    if text[place].isdigit() or text[place] in "+-.":
        return FilterError(f"“{text[place:end]}” is no number.", place, end)
    if text[place] in "&|":
        return FilterError("Write “and” or “or”.", place, place + 1)
    sentence = f"“{text[place]}” has no meaning here: put a text in quotes."
    return FilterError(sentence, place, place + 1)
