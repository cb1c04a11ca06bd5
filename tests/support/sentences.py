"""Gives a test the sentences of the product that it asserts, from `tests/sentences.toml`.

A change of a sentence then touches that file and no test. Under `--rewrite-sentences`, each
`assert ... == sentence("key")` that fails puts what the product says now into the file; the test
passes when it runs again. A part of a text (`in`, `startswith`, `match`) is edited by hand.
"""

from __future__ import annotations

import functools
import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
import pytest

OPTION = "--rewrite-sentences"
CATALOGUE = Path(__file__).parent.parent / "sentences.toml"
"""A table for each package of tests, with a key for each sentence."""


class Sentence(str):
    """A sentence of the catalogue: a plain text that knows its key."""

    key: str
    values: dict[str, str]

    @property
    def pattern(self) -> str:
        """For `pytest.raises(match=...)`."""
        return re.escape(self)

    def template(self, said: str) -> str | None:
        """What the catalogue would have to hold for `said`; none if it lacks one of the values."""
        for name, value in sorted(self.values.items(), key=lambda item: -len(item[1])):
            as_a_word = rf"(?<!\w){re.escape(value)}(?!\w)"
            said, count = re.subn(as_a_word, f"{{{name}}}", said) if value else (said, 0)
            if not count:
                return None
        return said


def sentence(key: str, /, **values: object) -> Sentence:
    """The sentence of `key`, with each `{name}` in it replaced by the value of that name."""
    try:
        text = _texts()[key]
    except KeyError:
        raise LookupError(f"{CATALOGUE.name} has no sentence {key!r}: add it there") from None
    given = {name: str(value) for name, value in values.items()}
    for name in given:
        if f"{{{name}}}" not in text:
            raise ValueError(f"the sentence {key!r} has no {{{name}}}: {text}")
    made = Sentence(re.sub(r"\{(\w+)\}", lambda found: given.get(found[1], found[0]), text))
    made.key, made.values = key, given
    return made


def catalogue() -> dict[str, dict[str, str]]:
    """The sentences by package and key."""
    return tomllib.loads(CATALOGUE.read_text("utf-8"))


@functools.cache
def _texts() -> dict[str, str]:
    return {key: text for table in catalogue().values() for key, text in table.items()}


def differing(left: object, right: object) -> Iterator[tuple[str, str]]:
    """Keys with what was said in place of their sentences, if `left == right` has failed."""
    if isinstance(left, Sentence) and not isinstance(right, Sentence):
        left, right = right, left
    if isinstance(left, str) and isinstance(right, Sentence):
        said = right.template(left)
        if left != right and said is not None:
            yield right.key, said
        return
    if isinstance(left, msgspec.Struct) and type(left) is type(right):
        left, right = msgspec.structs.astuple(left), msgspec.structs.astuple(right)
    if isinstance(left, (list, tuple)) and isinstance(right, (list, tuple)):
        if len(left) == len(right):
            for one, other in zip(left, right, strict=True):
                yield from differing(one, other)
    elif isinstance(left, dict) and isinstance(right, dict):
        for name in left.keys() & right.keys():
            yield from differing(left[name], right[name])


def rewrite(said: Mapping[str, str]) -> None:
    """Put new texts into the catalogue, sorted as it always is."""
    lines = []
    for package, texts in sorted(catalogue().items()):
        lines.append(f'\n["{package}"]\n')
        for key, text in sorted(texts.items()):
            lines.append(f"{key} = {_toml(said.get(key, text))}\n")
    head = CATALOGUE.read_text("utf-8").partition("\n[")[0]
    CATALOGUE.write_text(head + "".join(lines), "utf-8")


def _toml(text: str) -> str:
    """A TOML string, without escapes where that is possible."""
    if ('"' in text or "\\" in text) and "'" not in text and text.isprintable():
        return f"'{text}'"
    return json.dumps(text, ensure_ascii=False)


_differing: dict[str, str] = {}
"""Of the test that runs."""

_said: dict[str, set[str]] = {}
"""Of all tests that failed, also of those of other xdist workers."""


def pytest_assertrepr_compare(op: str, left: object, right: object) -> None:
    """An assertion has failed; a test that waits may repeat it, and pass."""
    if op == "==":
        _differing.update(differing(left, right))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> None:
    """What a failed test has found travels with its report."""
    if call.excinfo is not None and _differing:
        item.user_properties.append((OPTION, dict(_differing)))
    _differing.clear()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Collect it."""
    for name, found in report.user_properties:
        if name == OPTION and isinstance(found, dict):
            for key, said in found.items():
                _said.setdefault(key, set()).add(said)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Rewrite the catalogue; a key for which two texts are said needs a second key."""
    if not config.getoption(OPTION) or not _said:
        return
    rewrite({key: next(iter(said)) for key, said in _said.items() if len(said) == 1})
    terminalreporter.section("sentences")
    for key, said in sorted(_said.items()):
        told = "rewritten; run the test again" if len(said) == 1 else f"not one text: {said}"
        terminalreporter.line(f"{key}: {told}")
