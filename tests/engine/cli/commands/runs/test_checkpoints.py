"""`checkpoints`: lists those of a run, and copies one."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from engine.cli.output import Exit
from engine.interface import local_engine
from engine.runs.checkpoints import checkpoint_files
from main import main
from tests.support.recorded_runs import record_epochs, save_checkpoint
from tests.support.sentences import sentence

Text = pytest.CaptureFixture[str]


@pytest.fixture
def run() -> Path:
    """The folder of run 1, with the checkpoints of two steps."""
    folder = record_epochs("finished", (0.5,))
    for step in (10, 20):
        save_checkpoint(folder, step)
    return folder


def test_they_are_listed_for_people_and_programs(run: Path, capsys: Text) -> None:
    assert main(["checkpoints", "1"]) == Exit.DONE
    assert "step-00000010" in capsys.readouterr().out
    assert main(["checkpoints", "1", "--json"]) == Exit.DONE
    listed = json.loads(capsys.readouterr().out)
    assert [each["checkpoint"] for each in listed] == ["step-00000010", "step-00000020"]
    assert listed[0]["step"] == 10
    assert listed[0]["bytes"] == 1000
    record_epochs("finished", (0.5,))
    assert main(["checkpoints", "2"]) == Exit.DONE
    assert "Run 2 has no checkpoint." in capsys.readouterr().out


def test_one_is_copied_whole(
    run: Path, tmp_path: Path, capsys: Text, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "früh"
    assert main(["checkpoints", "1", "--copy", "step-00000010", "-o", str(target)]) == Exit.DONE
    assert capsys.readouterr().out.strip() == str(target)
    assert checkpoint_files.verify(target).position.step == 10
    monkeypatch.chdir(tmp_path)
    assert main(["checkpoints", "1", "--copy", "newest", "--json"]) == Exit.DONE
    said = json.loads(capsys.readouterr().out)
    assert said["folder"] == str(tmp_path / "run-1-step-00000020")
    assert checkpoint_files.verify(Path(said["folder"])).position.step == 20


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["77"], "There is no run 77"),
        (["77", "--copy", "newest"], "There is no run 77"),
        (["1", "-o", "new"], sentence("which-checkpoint-is-to-be-copied")),
        (["1", "--copy", "step-7"], sentence("has-no-checkpoint-of-that-name")),
        (["1", "--copy", "newest", "-o", "."], "exists already"),
        (["1", "--copy", "newest", "-o", "no/way"], "choose another folder"),
    ],
)
def test_what_cannot_be_done_is_said(
    run: Path, arguments: list[str], why: str, capsys: Text
) -> None:
    assert main(["checkpoints", *arguments]) == Exit.REFUSED
    assert why in capsys.readouterr().err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_it_leaves_nothing(
    run: Path, number: int, tmp_path: Path, capsys: Text, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = signal.getsignal(number)
    monkeypatch.setattr(local_engine, "piece_of", lambda *_: signal.raise_signal(number))
    words = ["checkpoints", "1", "--copy", "newest", "-o", str(tmp_path / "copy")]
    assert main(words) == Exit.INTERRUPTED
    assert "Nothing was kept" in capsys.readouterr().err
    assert not list(tmp_path.glob("*copy*"))
    assert not list(tmp_path.glob(".*copy*"))
    assert signal.getsignal(number) is before


def test_a_damaged_one_is_not_copied(run: Path, tmp_path: Path, capsys: Text) -> None:
    damaged = run / "checkpoints" / "step-00000020" / "rank0" / "model.safetensors"
    damaged.write_bytes(bytes(1000))
    words = ["checkpoints", "1", "--copy", "newest", "-o", str(tmp_path / "copy")]
    assert main(words) == Exit.REFUSED
    assert "is not what was saved" in capsys.readouterr().err
    assert not list(tmp_path.glob("*copy*"))
