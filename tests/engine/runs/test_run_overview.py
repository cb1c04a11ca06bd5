"""What a run is compared with, and what is read of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

import main
from engine import client
from engine.facts.git_state import GitState
from engine.facts.run_facts import (
    AttemptFacts,
    Layer,
    ModelFacts,
    Parent,
    write_attempt,
    write_model,
    write_parent,
)
from engine.messages.events import RunEnded
from engine.runs.run_notes import RunNotes, write_notes
from engine.runs.run_overview import folder_files, run_overview
from engine.spec.spec_file import encode_spec
from tests.support.recorded_runs import SPEC, RecordedRun
from tests.support.sentences import sentence


def facts(**changes: object) -> AttemptFacts:
    known: dict[str, object] = {"attempt": 1, "recorded": 1.0, "packages": {"a": "1", "b": "1"}}
    return AttemptFacts(**(known | changes))  # type: ignore[arg-type]


def test_a_run_is_compared_with_the_one_before_with_its_recipe(traindeck_home: Path) -> None:
    first = RecordedRun(SPEC)
    RecordedRun(replace(SPEC, recipe="digits_keras", strategy="tf/single"))
    third = RecordedRun(replace(SPEC, seed=5))
    write_attempt(first.folder, facts(git=GitState(commit="1")))
    write_attempt(third.folder, facts(packages={"a": "2", "c": "1"}, git=GitState(commit="2")))
    found = run_overview(client.get_run(third.id))
    assert found.other is not None
    assert (found.other.label, found.other.reason) == (
        "#1",
        sentence("previous-run-of-this-recipe"),
    )
    assert [row.name for row in found.settings if row.differs_from_other] == ["seed"]
    assert found.packages == [("a", "2", "1"), ("b", "", "1"), ("c", "1", "")]
    assert found.git_differs
    assert "train" in found.command
    assert run_overview(client.get_run(first.id)).other is None


def test_the_command_has_the_defaults_of_then_and_the_tags_but_no_secret(tmp_path: Path) -> None:
    file = tmp_path / "own.py"
    text = "def model(width: int = {width}):\n    import torch\n\ndef datasets(): ...\n"
    file.write_text(text.format(width=24))
    run = RecordedRun(replace(SPEC, recipe=str(file)))
    (run.folder / "recipe.py").write_text(text.format(width=16))
    write_notes(run.folder, RunNotes(tags=("paper",)))
    command = run_overview(client.get_run(run.id)).command
    assert "--set width=16" in command
    assert "--tag paper" in command
    script_file = tmp_path / "a.py"
    script_file.write_text("print()")
    script = replace(
        SPEC, recipe=str(script_file), strategy="script/single", command=("a.py", "--token", "x1")
    )
    found = run_overview(client.get_run(RecordedRun(script).id))
    assert found.command.endswith("-- a.py --token '${ARGUMENT_TOKEN}'")
    assert not [row for row in found.settings if "x1" in row.value]


def test_the_recipe_says_that_its_file_has_changed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "own.py"
    file.write_text("import torch\ndef model(): ...\ndef datasets(): ...\n")
    run = RecordedRun(replace(SPEC, recipe=str(file)))
    run.add(RunEnded("finished", ""))

    def notes() -> dict[str, str]:
        rows = run_overview(client.get_run(run.id)).settings
        return {row.name: row.note for row in rows if row.note}

    assert notes() == {}
    file.write_text("import torch\ndef model(): ...\ndef datasets(): return 1\n")
    assert notes() == {"recipe": sentence("file-has-changed-since-line-changed")}
    assert main.main(["show", run.id]) == 0
    assert sentence("file-has-changed") in capfd.readouterr().out
    file.unlink()
    assert notes() == {}, "the run has its copy"


def test_changes_that_git_could_not_tell_are_not_said_to_be_none(
    traindeck_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = RecordedRun(SPEC)
    write_attempt(run.folder, facts(git=GitState(problem="The index is damaged.")))
    assert main.main(["show", run.id, "--diff"]) == 2
    assert sentence("are-not-known-index-is-damaged") in capsys.readouterr().err


def test_the_parent_and_the_earlier_settings_come_first(traindeck_home: Path) -> None:
    RecordedRun(replace(SPEC, seed=1))
    RecordedRun(replace(SPEC, seed=2))
    third = RecordedRun(SPEC)
    before = third.folder / "spec.before-2.toml"
    before.write_text(encode_spec(replace(SPEC, seed=7), {}))
    found = run_overview(client.get_run(third.id)).other
    assert found is not None
    assert (found.label, found.spec.seed) == ("attempt 1", 7)
    write_parent(third.folder, Parent(run="1"))
    found = run_overview(client.get_run(third.id)).other
    assert found is not None
    assert (found.label, found.reason, found.spec.seed) == ("#1", "parent", 1)


def test_files_are_counted_with_their_sizes(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"12345")
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "x").write_bytes(b"123456789")
    (tmp_path / "link").symlink_to(tmp_path / "logs")
    found = {each.name: (each.bytes, each.files) for each in folder_files(tmp_path)}
    assert found["logs/"] == (9, 1)
    assert found["a"] == (5, 0)
    assert folder_files(tmp_path / "gone") == []


def test_show_prints_the_facts(traindeck_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RecordedRun(SPEC)
    assert main.main(["show", run.id]) == 0
    assert sentence("not-recorded-by-version") in capsys.readouterr().out
    state = GitState(
        commit="c" * 40, branch="main", message="[bold] x", changed_files=2, added=3, diff_bytes=4
    )
    write_attempt(run.folder, facts(git=state, python="3.13.5"), "+x\n")
    layers = (Layer("", 0, "Net", 7, 7, 28), Layer("a", 1, "Linear 1→7", 7, 7, 28))
    write_model(run.folder, ModelFacts(attempt=1, layers=layers, versions={"torch": "2.13.0"}))
    assert main.main(["show", run.id]) == 0
    printed = capsys.readouterr().out
    for text in ("main · cccccccccc · [bold] x", "2 files not committed", "Linear 1→7", "3.13.5"):
        assert text in printed
    assert main.main(["show", run.id, "--diff"]) == 0
    assert capsys.readouterr().out == "+x\n"
    assert main.main(["show", run.id, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)["overview"]
    assert found["attempt"]["git"]["commit"] == "c" * 40
    assert found["model"]["parameters"] == 7
    assert {row["name"] for row in found["settings"]} >= {"seed", "strategy"}
