"""`resume` from a terminal: a run goes on, with or without changes."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec
import pytest

from engine import client
from engine.cli.equivalent_command import resume_command
from engine.messages import commands
from engine.messages.commands import Command
from engine.messages.events import Paused, RecipeVersion, Resumed, RunEnded
from engine.spec import catalog
from engine.spec.run_spec import RunSpec
from engine.spec.spec_file import write_spec
from main import main
from tests.support.recorded_runs import RUNNING, SPEC, record_run

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
    ):
        assert main(["resume", run.id, flag, value]) == 2
        assert f"leave out {flag}," in capsys.readouterr().err
    assert main(["resume", run.id]) == 0
    assert capsys.readouterr().out == f"Run {run.id} goes on after step 12.\n"


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
