"""The catalogue of sentences has what the tests assert, and no more; and a change rewrites it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.support import sentences
from tests.support.sentences import CATALOGUE, catalogue, differing, rewrite, sentence

USED = re.compile(r'\bsentence\(\s*"([a-z0-9-]+)"')


class Ended(msgspec.Struct):
    """Any struct that holds a sentence."""

    state: str
    reason: str


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A catalogue of three sentences."""
    file = tmp_path / "sentences.toml"
    file.write_text(
        "# For people.\n"
        '\n["a"]\n'
        'ended = "Run {run} ended: {why}."\n'
        "quoted = 'It is \"so\".'\n"
        '\n["b/c"]\n'
        'lines = "One.\\nTwo. “é”"\n'
    )
    monkeypatch.setattr(sentences, "CATALOGUE", file)
    sentences._texts.cache_clear()
    yield file
    sentences._texts.cache_clear()


def test_each_key_is_used_and_none_is_twice() -> None:
    tests = CATALOGUE.parent
    others = {Path(__file__), Path(sentences.__file__)}
    files = [file for file in tests.rglob("*.py") if file not in others]
    used = {key for file in files for key in USED.findall(file.read_text("utf-8"))}
    keys = [key for table in catalogue().values() for key in table]
    assert sorted(keys) == sorted(used)


def test_it_is_sorted(copy: Path) -> None:
    whole = CATALOGUE.read_text("utf-8")
    copy.write_text(whole, "utf-8")
    rewrite({})
    assert copy.read_text("utf-8") == whole


def test_values_stand_in_their_places(copy: Path) -> None:
    made = sentence("ended", run=7, why="no {run}")
    assert made == "Run 7 ended: no {run}."
    assert hash(made) == hash("Run 7 ended: no {run}.")
    assert re.search(sentence("quoted").pattern, 'It is "so".')
    with pytest.raises(LookupError, match="has no sentence 'gone'"):
        sentence("gone")
    with pytest.raises(ValueError, match=r"has no \{step\}"):
        sentence("ended", step=1)


def test_what_differs_is_found_in_what_was_compared(copy: Path) -> None:
    ended = sentence("ended", run=7, why="a")
    assert dict(differing("Run 7 is over: a.", ended)) == {"ended": "Run {run} is over: {why}."}
    assert dict(differing(ended, "a: 7, not 17")) == {"ended": "{why}: {run}, not 17"}
    assert not dict(differing("Run 8 is over: a.", ended)), "a value is not there"
    assert not dict(differing("Run 7 ended: a.", ended)), "it is equal"
    assert not dict(differing(3, ended))
    lines = sentence("lines")
    said = {"lines": "x"}
    for left, right in (
        (["x", 1], [lines, 1]),
        (("y", ("x",)), ("y", (lines,))),
        ({"a": "x"}, {"a": lines}),
        (Ended("s", "x"), Ended("s", lines)),
    ):
        assert dict(differing(left, right)) == said
    assert not dict(differing(["x"], [lines, 1])), "which one it was is not known"


def test_a_rewritten_catalogue_differs_in_that_sentence_alone(copy: Path) -> None:
    before = copy.read_text("utf-8")
    rewrite({"ended": 'Run {run}: "{why}" \\ é'})
    assert copy.read_text("utf-8") == before.replace(
        '"Run {run} ended: {why}."', "'Run {run}: \"{why}\" \\ é'"
    )
    rewrite({"quoted": 'It\'s "so".'})
    assert catalogue()["a"]["quoted"] == 'It\'s "so".'
