"""The documents name what exists, and stay short enough to be read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").glob("*.md")),
)
FOLDERS = "engine|gui|tests|docs|tools|resources|benchmarks|\\.ci|\\.github"
PATH = re.compile(rf"`((?:{FOLDERS})/[\w./-]*)`")
MODULE = re.compile(rf"`(?:python -m )?((?:{FOLDERS})(?:\.[a-z_]\w*)+)[` ]")
MOST_WORDS = 28_500
MOST_WORDS_OF_README = 800
MOST_CHARACTERS = 120
LINK = re.compile(r"\]\(([^):#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_path_and_link_of_a_document_leads_somewhere(document: Path) -> None:
    text = document.read_text("utf-8")
    named = [ROOT / path for path in PATH.findall(text)]
    linked = [document.parent / path for path in LINK.findall(text)]
    assert [str(path) for path in named + linked if not path.exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_module_of_a_document_exists(document: Path) -> None:
    modules = [
        ROOT / name.replace(".", "/") for name in MODULE.findall(document.read_text("utf-8"))
    ]
    missing = [
        str(path) for path in modules if not path.exists() and not path.with_suffix(".py").exists()
    ]
    assert missing == []


def test_the_guide_names_paths() -> None:
    assert len(PATH.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8"))) > 30


def test_every_test_that_a_promise_names_exists() -> None:
    text = (ROOT / "docs/reliability.md").read_text("utf-8")
    named = re.findall(r"`(test_\w+\.py)`", text)
    assert len(named) > 30
    assert [name for name in named if not (ROOT / "tests/faults" / name).exists()] == []


def test_the_documents_are_short_enough() -> None:
    words = {document.name: len(document.read_text("utf-8").split()) for document in DOCUMENTS}
    assert words["README.md"] <= MOST_WORDS_OF_README
    assert sum(words.values()) <= MOST_WORDS


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_no_line_outside_of_a_table_is_long(document: Path) -> None:
    lines = enumerate(document.read_text("utf-8").splitlines(), start=1)
    assert [n for n, line in lines if len(line) > MOST_CHARACTERS and line[:1] != "|"] == []
