"""Secrets in Python code: by the name of what a text is assigned to, wherever the text stands."""

from __future__ import annotations

import ast
import io
import itertools
import shlex
import tokenize
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from engine.scripts.secret_names import is_certain_name, is_secret_name

_ENVIRONMENT = ("get", "getenv", "pop", "putenv", "setdefault", "setenv")
"""Functions that get the name of a variable, and then a value."""

_Text = ast.Constant


class _Place(NamedTuple):
    """The place of a text in the code, in bytes."""

    begin: int
    end: int


def without_secrets(code: str, clean: Callable[[str], str], hidden: str) -> str:
    """Return code with `hidden` in place of each text that a name says is a secret, and the others
    as `clean` returns them; every line keeps its number. Raises SyntaxError, ValueError,
    RecursionError, MemoryError if this is no code."""
    tree = ast.parse(code)
    body = code.encode()
    begins = list(itertools.accumulate(map(len, body.splitlines(keepends=True)), initial=0))
    changes = _of_comments(code, begins, clean)
    named = {id(each) for each in _named(tree)}
    for each in _texts(tree):
        place = _place(each, begins)
        if id(each) in named:
            new = repr(hidden.encode() if _is_bytes(each) else hidden)
        elif isinstance(each, ast.JoinedStr):
            new = clean(body[place.begin : place.end].decode())
            ast.parse(f"({new}\n)")
        else:
            new = _cleaned(each.value, clean)
        if new:
            changes[place] = new
    for words in _commands(tree):
        for word, shown in zip(words, _shown(words, clean), strict=True):
            if shown != word.value:
                changes.setdefault(_place(word, begins), repr(shown))
    for place in sorted(changes, reverse=True):
        new = changes[place]
        lost = body.count(b"\n", place.begin, place.end) - new.count("\n")
        body = b"".join([body[: place.begin], _with_lines(new, lost).encode(), body[place.end :]])
    found = body.decode()
    ast.parse(found)
    return found


def _with_lines(code: str, lost: int) -> str:
    return f"({code}{chr(10) * lost})" if lost > 0 else code


def _is_bytes(each: ast.AST) -> bool:
    return isinstance(each, _Text) and isinstance(each.value, bytes)


def _cleaned(value: object, clean: Callable[[str], str]) -> str:
    """Return the code of a text without its secrets; empty: it has none."""
    if isinstance(value, bytes):
        text = value.decode("latin-1")
        new = clean(text)
        return repr(new.encode("latin-1")) if new != text else ""
    if not isinstance(value, str):
        return ""
    new = clean(value)
    return repr(new) if new != value else ""


def _of_comments(
    code: str, begins: Sequence[int], clean: Callable[[str], str]
) -> dict[_Place, str]:
    """Return the comments that hold a secret, and what stands in their place."""
    found = {}
    for token in tokenize.tokenize(io.BytesIO(code.encode()).readline):
        if token.type == tokenize.COMMENT and (new := clean(token.string)) != token.string:
            line, column = token.start
            begin = begins[line - 1] + len(token.line[:column].encode())
            found[_Place(begin, begin + len(token.string.encode()))] = new.replace("\n", " ")
    return found


def _texts(tree: ast.AST) -> Iterator[_Text | ast.JoinedStr]:
    """Yield the texts and numbers of the code; the parts of an f-string have no places."""
    if isinstance(tree, _Text | ast.JoinedStr):
        yield tree
        return
    for child in ast.iter_child_nodes(tree):
        yield from _texts(child)


def _place(text: _Text | ast.JoinedStr, begins: Sequence[int]) -> _Place:
    assert text.end_lineno is not None
    assert text.end_col_offset is not None
    return _Place(
        begins[text.lineno - 1] + text.col_offset, begins[text.end_lineno - 1] + text.end_col_offset
    )


def _named(tree: ast.AST) -> Iterator[_Text | ast.JoinedStr]:
    """Yield the texts and numbers whose name says that they are secrets."""
    for node in ast.walk(tree):
        for name, value in _pairs(node):
            for each in _values(value):
                if isinstance(each, ast.JoinedStr):
                    is_secret = is_certain_name(name)
                else:
                    is_secret = bool(each.value) and is_secret_name(name, str(each.value))
                if is_secret:
                    yield each


def _pairs(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    """Yield what a statement or expression gives a name, each with that name."""
    match node:
        case ast.Assign(targets, value):
            for target in targets:
                yield from _assigned(target, value)
        case ast.AnnAssign(target, _, ast.expr() as value) | ast.NamedExpr(target, value):
            yield from _assigned(target, value)
        case ast.keyword(str(name), value):
            yield name, value
        case ast.arguments():
            positional = [*node.posonlyargs, *node.args]
            for argument, value in zip(positional[::-1], node.defaults[::-1], strict=False):
                yield argument.arg, value
            for argument, default in zip(node.kwonlyargs, node.kw_defaults, strict=True):
                if default is not None:
                    yield argument.arg, default
        case ast.Dict(keys, values):
            for key, value in zip(keys, values, strict=True):
                if isinstance(key, _Text) and isinstance(key.value, str):
                    yield key.value, value
        case ast.Call(function, [_Text(str(name)), value, *_]) if _name(function) in _ENVIRONMENT:
            yield name, value


def _assigned(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
        for each, its in zip(target.elts, value.elts, strict=False):
            yield from _assigned(each, its)
    elif name := _name(target):
        yield name, value


def _name(target: ast.expr) -> str:
    match target:
        case ast.Name(name) | ast.Attribute(_, name) | ast.Subscript(_, _Text(str(name))):
            return name
    return ""


def _values(value: ast.expr) -> Iterator[_Text | ast.JoinedStr]:
    """Yield the texts that an expression may give: `x or "a"`, `["a", "b"]`, `"a".encode()`."""
    match value:
        case _Text(str() | bytes() | int()) | ast.JoinedStr():
            yield value
        case ast.List(parts) | ast.Tuple(parts) | ast.Set(parts) | ast.BoolOp(_, parts):
            for part in parts:
                yield from _values(part)
        case ast.IfExp(_, first, second) | ast.BinOp(first, _, second):
            yield from _values(first)
            yield from _values(second)
        case ast.Call(ast.Attribute(text)):
            yield from _values(text)
        case ast.Call(ast.Name("str" | "bytes" | "SecretStr"), [text, *_]):
            yield from _values(text)


def _commands(tree: ast.AST) -> Iterator[list[_Text]]:
    """Yield lists of texts, which may be the words of a command."""
    for node in ast.walk(tree):
        if isinstance(node, ast.List | ast.Tuple) and 2 < len(node.elts) < 100:
            words = [each for each in node.elts if isinstance(each, _Text)]
            if len(words) == len(node.elts) and all(isinstance(w.value, str) for w in words):
                yield words


def _shown(words: Sequence[_Text], clean: Callable[[str], str]) -> list[str]:
    given = [str(word.value) for word in words]
    try:
        shown = shlex.split(clean(shlex.join(given)))
    except ValueError:
        return given
    return shown if len(shown) == len(given) else given
