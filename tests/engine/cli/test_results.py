"""What the command line prints about runs: JSON for programs, text for people, exit codes."""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
from typing import Any

import msgspec
import pytest

from engine import client
from engine.cli.commands.runs.show import show
from engine.cli.errors import report_errors
from engine.cli.follow import CtrlC, follow_active_run, follow_started_run, report_end
from engine.cli.output import Interrupted, Unanswered, format_bytes, format_duration
from engine.cli.watch import updates
from engine.interface.local_engine import LocalEngine
from engine.messages import commands
from engine.messages.commands import Command
from engine.messages.events import (
    CacheEmptied,
    CheckpointSaved,
    EpochEnded,
    Failure,
    Paused,
    RunEnded,
    Shrunk,
    TrainingStarted,
)
from engine.runs.checkpoints.checkpoint_files import Position, begin, publish
from engine.runs.run_notes import RunNotes, write_notes
from engine.spec import catalog
from engine.spec.spec_file import write_spec
from main import main
from tests.support.recorded_runs import RUNNING, SPEC, RecordedRun, record_run
from tests.support.sentences import sentence

ENGINE = LocalEngine()

FINISHED = RunEnded(state="finished", reason="All 3 epochs are done.")
STOPPED = RunEnded(state="stopped", reason="Stopped after step 12.")
FAILED = RunEnded(
    state="failed",
    reason="Rank 1 was ended by SIGKILL.",
    failure=Failure(
        1, "cpu:1", -9, "SIGKILL", "Rank 1 was ended.", "recipe.py:3", "a\n[b]last[/b]"
    ),
)


def last_line(text: str) -> Any:
    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text.splitlines()[-1], parse_constant=refuse)


def test_show_json_is_one_strict_object(capsys: pytest.CaptureFixture[str]) -> None:
    metrics = {"validation/loss": math.nan, "validation/accuracy": 0.5, "train/loss": math.inf}
    run = record_run(*RUNNING, EpochEnded(epoch=2, step=20, metrics=metrics), FINISHED)
    assert main(["show", run.id, "--json"]) == 0
    found = last_line(capsys.readouterr().out)
    assert found.pop("overview")["attempt"] is None
    assert found == {
        "id": run.id,
        "state": "finished",
        "reason": "All 3 epochs are done.",
        "epoch": 2,
        "step": 20,
        "metrics": {"validation/loss": None, "validation/accuracy": 0.5, "train/loss": None},
        "run_dir": str(run.folder),
    }


def test_the_json_of_a_failed_run_has_the_failure_with_file_and_line(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert FAILED.failure is not None
    failed = msgspec.structs.replace(
        FAILED, failure=msgspec.structs.replace(FAILED.failure, details="Indices: 2\n3")
    )
    run = record_run(*RUNNING, failed)
    assert main(["show", run.id, "--json"]) == 0
    assert last_line(capsys.readouterr().out)["failure"] == {
        "rank": 1,
        "device": "cpu:1",
        "exit_code": -9,
        "signal": "SIGKILL",
        "message": "Rank 1 was ended.",
        "where": "recipe.py:3",
        "log_tail": "a\n[b]last[/b]",
        "details": "Indices: 2\n3",
    }
    assert main(["show", run.id]) == 0
    assert "  Indices: 2\n  3\n" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "field", "text"),
    [
        (["train", "--devices", "cpu:0", "--epochs", "0"], "epochs", "must be at least 1"),
        (["train", "--devices", "cpu:0", "--seed", "-1"], "seed", "must be at least 0"),
        (["train", "--recipe", "nothing.py"], "", "There is no recipe file"),
        (
            ["train", "--recipe", "nothing"],
            "",
            sentence("there-is-no-built-in-recipe", recipe="nothing"),
        ),
        (["train", "--devices", "cpu:0", "--set", "wide"], "", "--set takes name=value"),
        (["train", "--batch-size", "many"], "", sentence("batch-size-must-be-whole-number")),
        (["train", "--nonsense"], "", "nrecognized arguments: --nonsense"),
        (["resume", "7000"], "", "There is no run 7000"),
        (["show", "7000"], "", "There is no run 7000"),
        (["attach", "7000"], "", "There is no run 7000"),
        (["fsck", "7000"], "", "There is no run 7000"),
        (["queue", "--move", "7000", "sideways"], "", "A run can be moved up"),
        (["warm", "jax"], "", "on|off"),
    ],
)
def test_what_is_refused_is_one_json_object_too(
    arguments: list[str], field: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = main([*arguments, "--json"])
    except SystemExit as left:  # bad usage
        code = left.code
    assert code == 2
    captured = capsys.readouterr()
    refusal = json.loads(captured.out)
    assert refusal["state"] == "refused"
    [problem] = refusal["problems"]
    assert problem["field"] == field
    assert text in problem["text"]
    assert problem["text"] in captured.err
    with contextlib.suppress(SystemExit):
        main(arguments)
    assert capsys.readouterr().out == ""


def test_runs_json_is_a_list_newest_first(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = record_run(*RUNNING, FAILED), record_run(*RUNNING)
    assert main(["runs", "--json"]) == 0
    rows = last_line(capsys.readouterr().out)
    assert [(row["id"], row["state"]) for row in rows] == [
        (second.id, "running"),
        (first.id, "failed"),
    ]
    assert {tuple(row) for row in rows} == {
        ("id", "state", "reason", "epoch", "step", "metrics", "run_dir")
    }


def test_a_finished_run_takes_no_commands(capsys: pytest.CaptureFixture[str]) -> None:
    run = record_run(*RUNNING, FINISHED)
    for command in ("attach", "stop", "pause", "checkpoint", "empty-cache"):
        assert main([command, run.id]) == 2
        assert sentence("run-is-finished-no-longer-active", run=run.id) in capsys.readouterr().err
    assert main(["resume", run.id]) == 2
    assert sentence("has-finished-all-epochs") in capsys.readouterr().err


@pytest.mark.parametrize(("end", "code"), [(FINISHED, 0), (STOPPED, 3), (FAILED, 1)])
def test_following_a_run_returns_how_it_ended(
    end: RunEnded, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run = record_run(*RUNNING, end)
    assert follow_started_run(ENGINE, run.id, CtrlC(), after=0, attempt=1, json=True) == code
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 1
    assert last_line(captured.out)["state"] == end.state


def test_a_failure_is_told_with_rank_signal_place_and_log(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show(ENGINE, record_run(*RUNNING, FAILED).id, json=False)
    captured = capsys.readouterr()
    for part in ("Rank 1 was ended.", "rank 1 on cpu:1", "SIGKILL", "recipe.py:3", "[b]last[/b]"):
        assert part in captured.err
    assert "Rank 1 was ended by SIGKILL." in captured.out


def test_show_lists_the_settings_and_the_checkpoints(capsys: pytest.CaptureFixture[str]) -> None:
    run = record_run(*RUNNING, STOPPED)
    (begin(run.folder, 12) / "model.pt").write_bytes(b"x" * 3000)
    publish(
        run.folder,
        Position(step=12),
        strategy="s",
        replicas=1,
        batch_size=8,
        parameters=1,
        kinds=("request", "best"),
    )
    show(ENGINE, run.id, json=False)
    text = capsys.readouterr().out
    for part in ("torch/single", "cpu:0", "step-00000012", " 12 ", "request, best", "2.9 KiB"):
        assert part in text


def test_show_prints_no_path_of_a_checkpoint_that_is_not_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    lost = CheckpointSaved(
        path="/moved/away/checkpoints/step-00000012", step=12, epoch=1, bytes=5, seconds=0.1
    )
    run = record_run(*RUNNING, lost, STOPPED)
    for step in (6, 12):
        show(ENGINE, run.id, json=False)
        text = " ".join(capsys.readouterr().out.split())
        assert sentence("step-is-not-there-any-more") in text
        assert "/moved/away" not in text
        begin(run.folder, step)
        publish(
            run.folder,
            Position(step=step),
            strategy="s",
            replicas=1,
            batch_size=8,
            parameters=1,
            kinds=("last",),
        )
    assert "the newest is" in text
    show(ENGINE, run.id, json=False)
    text = " ".join(capsys.readouterr().out.split())
    assert "is not there" not in text
    assert "/moved/away" not in text


def test_show_lists_the_options_that_differ_from_their_defaults(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = record_run(*RUNNING, STOPPED)
    write_spec(
        run.folder, msgspec.structs.replace(SPEC, precision="bf16"), catalog.recipe(SPEC.recipe)
    )
    show(ENGINE, run.id, json=False)
    text = capsys.readouterr().out
    assert "precision      bf16" in text
    assert "schedule" not in text


def test_show_tells_the_parts_that_are_in_force(capsys: pytest.CaptureFixture[str]) -> None:
    replicas = next(e.replicas for e in RUNNING if isinstance(e, TrainingStarted))
    shrunk = Shrunk(0, 3, "", 4, SPEC.accumulation, SPEC.batch_size, replicas)
    run = record_run(*RUNNING, shrunk, STOPPED)
    show(ENGINE, run.id, json=False)
    assert sentence("accumulation-steps-since-device-was-out") in capsys.readouterr().out


class Supervisor:
    """Takes commands in place of a supervisor, and ends the run at the last that is expected."""

    def __init__(self, run: RecordedRun, expected: list[Command]) -> None:
        self.taken: list[Command] = []
        self._run = run
        self._expected = expected

    def send(self, run_id: str, command: Command) -> int:
        assert run_id == self._run.id
        self.taken.append(command)
        if self.taken == self._expected:
            self._run.add(STOPPED)
        else:
            os.kill(os.getpid(), signal.SIGINT)  # impatience
        return 0


def test_ctrl_c_stops_a_run_and_a_second_one_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = record_run(*RUNNING)
    expected: list[Command] = [commands.Stop(), commands.Stop(now=True)]
    supervisor = Supervisor(run, expected)
    monkeypatch.setattr(client, "send", supervisor.send)
    with CtrlC() as ctrl_c:
        os.kill(os.getpid(), signal.SIGINT)
        assert follow_started_run(ENGINE, run.id, ctrl_c, after=0, attempt=1, json=True) == 3
    assert supervisor.taken == expected
    assert "Ctrl-C again ends at once" in capsys.readouterr().err


def test_ctrl_c_leaves_an_attached_run_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = record_run(*RUNNING)
    monkeypatch.delattr(client, "send")
    with CtrlC() as ctrl_c:
        os.kill(os.getpid(), signal.SIGINT)
        assert follow_active_run(ENGINE, client.get_run(run.id), ctrl_c, json=False) == 0
    assert f"Run {run.id} goes on" in capsys.readouterr().err


def test_a_run_whose_folder_is_gone_at_its_end_has_failed_with_the_reason() -> None:
    run = record_run(*RUNNING, STOPPED)
    last = list(updates(ENGINE, run.id, after=0, attempt=1))[-1]
    run.store.close()
    run.folder.rename(run.folder.with_name("moved"))
    with pytest.raises(Unanswered, match=f"run {run.id} was moved or deleted.*{STOPPED.reason}"):
        report_end(ENGINE, run.id, last, json=True)


def test_ctrl_c_works_as_before_afterwards() -> None:
    with CtrlC():
        pass
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize(("flags", "freed"), [([], False), (["--free-gpus"], True)])
def test_a_pause_may_free_the_gpus(
    flags: list[str],
    freed: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    run = record_run(*RUNNING)

    def send(run_id: str, command: Command) -> int:
        assert command == commands.Pause(free_devices=freed)
        return run.add(Paused(step=12, freed_devices=freed)) - 1

    monkeypatch.setattr(client, "send", send)
    assert main(["pause", run.id, *flags]) == 0
    assert (sentence("model-in-hosts-memory") in capsys.readouterr().out) is freed


def test_empty_cache_waits_for_every_worker_on_every_device(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = record_run(*RUNNING)
    split = msgspec.structs.replace(SPEC, strategy="torch/ddp", workers_per_device=2)
    write_spec(run.folder, split, catalog.recipe(SPEC.recipe))

    def send(run_id: str, command: Command) -> int:
        before = run.add()
        run.add(*[CacheEmptied(rank, "cpu:0", 1 + rank) for rank in (0, 1)])
        return before

    monkeypatch.setattr(client, "send", send)
    assert main(["empty-cache", run.id]) == 0
    assert capsys.readouterr().out == ("cpu:0  1 B freed  (rank 0)\ncpu:0  2 B freed  (rank 1)\n")


@pytest.mark.usefixtures("processes")
def test_lists_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["strategies", "--json"]) == 0
    rows = {row["name"]: row for row in last_line(capsys.readouterr().out)}
    assert rows["torch/ddp"]["can_run"] is True
    assert main(["devices", "--json"]) == 0
    assert last_line(capsys.readouterr().out)[0]["id"] == "cpu"
    assert main(["recipes", "--json"]) == 0
    assert "digits" in [row["name"] for row in last_line(capsys.readouterr().out)]


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("command", ["strategies", "devices", "recipes", "runs"])
def test_lists_for_people(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([command]) == 0
    assert capsys.readouterr().out


def test_units() -> None:
    assert [format_bytes(n) for n in (None, 5, 1536, 30 << 30)] == [
        "–",
        "5 B",
        "1.5 KiB",
        "30.0 GiB",
    ]
    assert [format_duration(s) for s in (7, 3723, math.inf)] == ["0:07", "1:02:03", "–"]


def test_tags_and_note_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    run = record_run(*RUNNING, FINISHED)
    write_notes(run.folder, RunNotes(name="renamed", tags=("keep", "wide"), note="the best"))
    assert main(["show", run.id]) == 0
    text = capsys.readouterr().out
    assert "renamed · single · #1" in text
    assert "keep, wide" in text
    assert "the best" in text


@pytest.mark.parametrize(
    ("error", "state", "code", "text"),
    [
        (Unanswered("Run 7 does not answer."), "failed", 1, "Run 7 does not answer."),
        (OSError("the disk is full"), "failed", 1, "This could not be done: the disk is full."),
        (Interrupted("Run 7 was not resumed."), "interrupted", 130, "Run 7 was not resumed."),
        (KeyboardInterrupt(), "interrupted", 130, "The command was interrupted."),
    ],
)
def test_a_command_that_fails_or_is_interrupted_ends_with_one_json_object_too(
    error: BaseException, state: str, code: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> int:
        raise error

    assert report_errors(fail, json=True) == code
    found = json.loads(capsys.readouterr().out)
    assert found == {"state": state, "problems": [{"field": "", "text": text}]}
    assert report_errors(fail) == code
    assert not capsys.readouterr().out
