"""The grammar of filter expressions, and what is said of a text that does not follow it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lark import Lark, Token, Tree, UnexpectedInput

LONGEST = 4000
"""Characters of an expression."""

_SHOWN = 100
"""Characters before and behind the place of an error."""

_GRAMMAR = r"""
?start: any
?any: all | all (_OR all)+ -> any_of
?all: one | one (_AND? one)+ -> all_of
?one: comparison | _NOT one -> negated | "(" any ")"
comparison: _left (SIGN _right | (IN | NOT_IN) (_right | list))*
_left: NAME | call | _literal
_right: WORD | call | _literal
_literal: QUOTED | TEXT | NUMBER | DURATION | DATE
call: FUNCTION "(" (NAME | QUOTED) ")"
list: "[" [_items] "]" | "(" [_items] ")"
_items: _item ("," _item)* [","]
_item: WORD | _literal

_OR.2: /or(?![.\/-]*\w)|\|\|/i
_AND.2: /and(?![.\/-]*\w)|&&/i
_NOT.2: /not(?![.\/-]*\w)|!(?![=~])/i
IN.2: /in(?![.\/-]*\w)/i
NOT_IN.3: /not\s+in(?![.\/-]*\w)/i
FUNCTION.2: /(best|last)(?=\s*\()/i
SIGN: /==|!=|<>|<=|>=|!~|[=<>~:]/
TEXT: /"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/
QUOTED: /`[^`]+`/
DATE.3: /\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d)?)?(?!\w)/
DURATION.2: /[-+]?(?:\d+(?:\.\d+)?(?:min|[wdhms]))+(?!\w)/
NUMBER: /[-+]?(?:\d[\d_]*(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?[kMG%]?(?![\w.])/
NAME: /(?!(?:and|or|not|in)(?![.\/-]*\w))[^\W\d]\w*(?:[.\/-]+\w+)*/i
// On the right of a sign, a text without quotes may have colons, such as `cpu:0`.
WORD: /(?!(?:and|or|not|in)(?![.\/-]*\w))[^\W\d]\w*(?:[.\/-]+\w+)*(?::\w+(?:[.\/-]+\w+)*)*/i
%ignore /\s+/
"""


class FilterError(Exception):
    """An expression cannot be read; the text is a sentence."""

    def __init__(self, sentence: str, begin: int, end: int) -> None:
        """The characters from `begin` to before `end` are at fault."""
        cut = f"{sentence[:_SHOWN]} ... {sentence[-_SHOWN:]}"
        super().__init__(cut if len(sentence) > 3 * _SHOWN else sentence)
        self.begin = begin
        self.end = max(end, begin + 1)

    def pointing(self, text: str) -> str:
        """Return the line of `text` with a line of marks below the place."""
        first = max(0, self.begin - _SHOWN)
        shown = text[first : self.begin + _SHOWN]
        before = "..." if first else ""
        after = "..." if first + len(shown) < len(text) else ""
        count = min(self.end, first + len(shown)) - self.begin
        marks = " " * (len(before) + self.begin - first) + "^" * max(1, count)
        return f"{before}{shown}{after}\n{marks}"


def parsed(text: str) -> Tree[Token]:
    """Return the tree of an expression. Raises FilterError."""
    from lark import UnexpectedInput

    if len(text) > LONGEST:
        raise FilterError(f"A filter has at most {LONGEST:,} characters.", LONGEST, len(text))
    try:
        return parser().parse(text)
    except UnexpectedInput as error:
        raise _explained(text, error) from None


@functools.cache
def parser() -> Lark:
    """Return the parser of expressions."""
    from lark import Lark  # takes a tenth of a second, and many never filter

    return Lark(_GRAMMAR, parser="lalr", maybe_placeholders=False)


def _explained(text: str, error: UnexpectedInput) -> FilterError:
    from lark import Token, UnexpectedToken

    if not isinstance(error, UnexpectedToken):
        return _unreadable(text, error.pos_in_stream or 0)
    token, expected = error.token, error.expected
    is_end = token.type == "$END"
    begin = len(text) if is_end else token.start_pos or 0
    end = begin + (0 if is_end else len(token))
    stack = [each for each in error.state.value_stack if isinstance(each, Token)]
    opened = [each.start_pos or 0 for each in stack if each.type in ("LPAR", "LSQB")]
    if is_end and opened and {"RPAR", "RSQB"} & expected:
        what = "list" if {"COMMA", "WORD"} & expected else "parenthesis"
        return FilterError(f"This {what} is never closed.", opened[-1], opened[-1] + 1)
    if "COMMA" in expected:
        closing = "]" if "RSQB" in expected else ")"
        return FilterError(f"“,” or “{closing}” is expected here.", begin, end)
    if {"SIGN", "_OR", "$END"} & expected:
        return FilterError(f"“{token}” is not expected here.", begin, end)
    if "WORD" in expected and token.type in ("LPAR", "LSQB"):
        return FilterError("A list follows “in”.", begin, end)
    if "NUMBER" not in expected:
        return FilterError("The name of a metric is expected here.", begin, end)
    what = "The filter ends" if is_end else f"“{token}” stands"
    return FilterError(f"{what} where a name or a value is expected.", begin, end)


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
