"""The files of the facts: written, read, missing, damaged, newer."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from engine.facts import run_facts
from engine.facts.git_state import GitState
from engine.facts.run_facts import (
    AttemptFacts,
    Layer,
    ModelFacts,
    Parent,
    RunFacts,
    read_attempt,
    read_diff,
    read_facts,
    write_attempt,
    write_model,
    write_parent,
)
from tests.support.sentences import sentence

LAYERS = (
    Layer("", 0, "Net", 30, 20, 120),
    Layer("a", 1, "Linear 2→5", 10, 0, 40),
    Layer("b", 1, "Linear 2→10", 20, 20, 80),
)


def test_a_run_of_an_older_version_has_no_facts(tmp_path: Path) -> None:
    assert read_facts(tmp_path) == RunFacts()
    assert read_diff(tmp_path, 1) == ""
    assert read_attempt(tmp_path, 1) is None


def test_the_newest_attempt_that_has_facts_is_read(tmp_path: Path) -> None:
    for number in (2, 10):
        facts = AttemptFacts(attempt=number, recorded=1.0, git=GitState(commit=str(number)))
        write_attempt(tmp_path, facts, f"diff {number}")
    write_model(tmp_path, ModelFacts(attempt=2, layers=LAYERS))
    write_parent(tmp_path, Parent(run="7", checkpoint="step-1"))
    found = read_facts(tmp_path)
    assert found.attempt is not None
    assert found.attempt.attempt == 10
    assert found.model is not None
    assert found.model.layers == LAYERS
    assert (found.model.parameters, found.model.trainable, found.model.bytes) == (30, 20, 120)
    assert found.parent == Parent(run="7", checkpoint="step-1")
    assert read_diff(tmp_path, 2) == "diff 2"
    older = read_attempt(tmp_path, 2)
    assert older is not None
    assert older.git == GitState(commit="2")
    assert run_facts.attempts(tmp_path) == [2, 10]


def test_only_the_owner_reads_the_facts(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        write_attempt(tmp_path, AttemptFacts(attempt=1, recorded=1.0), "x")
    finally:
        os.umask(old)
    folder = tmp_path / run_facts.FOLDER
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (folder, *folder.iterdir())}
    assert modes == {0o700, 0o600}


def test_damaged_and_newer_facts_are_named(tmp_path: Path) -> None:
    folder = tmp_path / run_facts.FOLDER
    folder.mkdir()
    (folder / "attempt-1.json").write_text('{"attempt":')
    (folder / "attempt-1.model.json").write_text('{"format": 99}')
    (folder / "attempt-x.json").write_text("{}")
    found = read_facts(tmp_path)
    assert found.attempt is None
    assert found.model is None
    assert sentence("facts-cannot-be-read") in found.problem
    assert "newer version" in found.problem


def test_keys_of_a_newer_minor_version_are_ignored(tmp_path: Path) -> None:
    folder = tmp_path / run_facts.FOLDER
    folder.mkdir()
    text = '{"attempt": 1, "recorded": 2.0, "colour": "red", "git": {"commit": "a", "tag": "v"}}'
    (folder / "attempt-1.json").write_text(text)
    found = read_facts(tmp_path).attempt
    assert found is not None
    assert found.git == GitState(commit="a")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    folder = tmp_path / run_facts.FOLDER
    folder.mkdir()
    (tmp_path / "other.json").write_text('{"attempt": 1, "recorded": 2.0}')
    (folder / "attempt-1.json").symlink_to(tmp_path / "other.json")
    assert "is a link" in read_facts(tmp_path).problem
