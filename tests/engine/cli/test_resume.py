"""`resume` from a terminal: a run goes on, with or without changes."""

from __future__ import annotations

import io
import shlex
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine import client
from engine.facts.equivalent_command import resume_command
from engine.messages import commands
from engine.messages.commands import Command
from engine.messages.events import Paused, RecipeChosen, RecipeVersion, Resumed, RunEnded
from engine.spec import catalog
from engine.spec.field_info import Setting
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import write_spec
from main import main
from tests.support.recorded_runs import RUNNING, SPEC, RecordedRun, record_run
from tests.support.sentences import sentence

STOPPED = RunEnded("stopped", "Stopped.")


def test_resume_lets_a_paused_run_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = record_run(*RUNNING, Paused(step=12))

    def send(run_id: str, command: Command) -> int:
        assert command == commands.Resume()
        return run.add(Resumed(step=12)) - 1

    monkeypatch.setattr(client, "send", send)
    for flag, value in (
        ("--checkpoint", "step-00000012"),
        ("--strategy", "ddp"),
        ("--devices", "cpu:0"),
        ("--set", "dropout=0.5"),
        ("--batch-size", "7"),
        ("--recipe", "as-it-was"),
    ):
        assert main(["resume", run.id, flag, value]) == 2
        assert f"leave out {flag}," in capsys.readouterr().err
    assert main(["resume", run.id]) == 0
    assert capsys.readouterr().out == sentence("run-goes-on-after-step", run=run.id)


def test_resume_as_a_new_run_leaves_the_old_one(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run, new = record_run(*RUNNING, STOPPED), record_run(*RUNNING)
    asked = []

    def resume_as_new(*given: object) -> str:
        *settings, _, version = given
        assert version is RecipeVersion.AS_IT_WAS
        asked.append(tuple(settings))
        return new.id

    monkeypatch.setattr(client, "resume_as_new", resume_as_new)
    changed = msgspec.structs.replace(SPEC, epochs=9)
    command = resume_command(run.id, "step-00000012", SPEC, changed, as_new=True)
    assert main([*shlex.split(command)[2:], "--detach"]) == 0
    assert asked == [(run.id, run.folder / "checkpoints" / "step-00000012", changed)]
    assert capsys.readouterr().out == f"{new.id}\n"


def test_a_run_is_resumed_with_or_without_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    run = record_run(*RUNNING, STOPPED)
    asked = []

    def resume(
        run_id: str, checkpoint: Path | None, spec: RunSpec, _: object, recipe: RecipeVersion
    ) -> None:
        assert recipe is RecipeVersion.AS_IT_WAS
        asked.append((run_id, checkpoint, spec))

    monkeypatch.setattr(client, "resume", resume)
    assert main(["resume", run.id, "--detach"]) == 0
    changed = msgspec.structs.replace(
        SPEC,
        strategy="torch/ddp",
        devices=("cpu:0", "cpu:1"),
        name="more",
        epochs=9,
        deterministic=True,
        settings={"dropout": 0.5},
    )
    command = resume_command(run.id, "step-00000012", SPEC, changed)
    assert main([*shlex.split(command)[2:], "--detach"]) == 0
    back = resume_command(run.id, "step-00000012", changed, SPEC)
    write_spec(run.folder, changed, catalog.recipe(SPEC.recipe))
    assert main([*shlex.split(back)[2:], "--detach"]) == 0
    folder = run.folder / "checkpoints" / "step-00000012"
    assert asked == [
        (run.id, None, SPEC),
        (run.id, folder, changed),
        (run.id, folder, SPEC),
    ]


def test_a_resume_from_the_beginning_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = record_run(*RUNNING, STOPPED)
    monkeypatch.setattr(client, "resume", lambda *_: "beginning")
    assert main(["resume", run.id, "--detach"]) == 0
    assert sentence("run-starts-again-from-beginning", run=run.id) in capsys.readouterr().err


MINE = "import torch\ndef model(width: int = 8): ...\ndef datasets(): ...\n"
WAS, NOW = RecipeVersion


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def changed(tmp_path: Path) -> RecordedRun:
    """A stopped run whose recipe has one more setting now."""
    recipe = tmp_path / "mine.py"
    recipe.write_text(MINE)
    run = RecordedRun(msgspec.structs.replace(SPEC, recipe=str(recipe)))
    run.add(*RUNNING, STOPPED)
    recipe.write_text(MINE.replace("width", "depth: int = 2, width"))
    return run


@pytest.fixture
def resumed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[RecipeVersion, dict[str, Setting]]]:
    """The recipe and its settings with which runs were resumed."""
    calls = []

    def resume(_: str, __: object, spec: RunSpec, ___: object, recipe: RecipeVersion) -> None:
        calls.append((recipe, spec.settings))

    monkeypatch.setattr(client, "resume", resume)
    return calls


def test_without_a_terminal_a_changed_recipe_goes_on_as_it_was_and_that_is_said(
    changed: RecordedRun, resumed: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["resume", changed.id, "--detach", "--set", "width=4"]) == 0
    assert resumed == [(WAS, {"width": 4})]
    said = capsys.readouterr().err.splitlines()[0]
    assert sentence("has-changed-since-runs-start-line") in said
    assert sentence("takes-changed-one") in said


def test_the_flag_answers_the_question(
    changed: RecordedRun, resumed: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    resume = ["resume", changed.id, "--detach", "--recipe"]
    assert main([*resume, "as-it-is-now", "--set", "depth=5"]) == 0
    assert main([*resume, "as-it-was"]) == 0
    assert resumed == [(NOW, {"depth": 5}), (WAS, {})]
    assert "has changed" not in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*resume, "as-it-will-be"])


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("1\n", [WAS]), ("what?\n2\n", [NOW]), (" as-it-is-now\n", [NOW]), ("what?\n", [])],
)
def test_on_a_terminal_it_asks(
    changed: RecordedRun,
    resumed: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    typed: str,
    expected: list[RecipeVersion],
) -> None:
    shown = Terminal()
    monkeypatch.setattr("sys.stdin", Terminal(typed))
    monkeypatch.setattr("sys.stderr", shown)
    assert main(["resume", changed.id, "--detach"]) == (0 if expected else 2)
    assert [version for version, _ in resumed] == expected
    assert "mine.py: 1 line changed" in shown.getvalue()
    assert shown.getvalue().count(sentence("as-it-was-or-as-it-is-now")) == typed.count("\n") + (
        not expected
    )


def test_show_tells_with_which_recipe_it_went_on(
    changed: RecordedRun, capsys: pytest.CaptureFixture[str]
) -> None:
    for version in (WAS, NOW):
        changed.add(RecipeChosen(version, "mine.py: 1 line changed"))
    assert main(["show", changed.id]) == 0
    assert sentence("recipe-as-it-is-now-line-changed") in capsys.readouterr().out
