"""`export` and `import` as people and scripts call them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import main
from engine.cli.output import Exit
from engine.exports.export_runs import Format
from engine.runs import run_info
from tests.support.recorded_runs import record_epochs
from tests.support.sentences import sentence


def call(*arguments: str) -> int:
    """Exit code of one call."""
    return main.main([*arguments])


def test_runs_go_out_and_come_back(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for losses in ((0.5, 0.25), (0.75,)):
        record_epochs("finished", losses)
    target = tmp_path / "out"
    assert call("export", "all", "--format", "csv", "-o", str(target), "--json") == Exit.DONE
    said = json.loads(capsys.readouterr().out)
    assert said["file"] == str(target)
    assert (sorted(said["runs"]), said["points"], said["remarks"]) == (["1", "2"], 3, [])
    assert call("import", str(target), "--json") == Exit.DONE
    said = json.loads(capsys.readouterr().out)
    assert (said["runs"], said["points"]) == (["3", "4"], 3)
    assert run_info.get_run("3").spec.is_imported
    assert call("runs") == Exit.DONE
    assert call("show", "3") == Exit.DONE
    assert "0/5" not in capsys.readouterr().out


def test_runs_that_cannot_be_read_are_left_out_of_all_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        record_epochs("finished", (0.5,))
    (run_info.get_run("1").folder / "run.sqlite").write_bytes(b"x" * 5000)
    (run_info.get_run("2").folder / "run.sqlite").write_bytes(b"")
    target = tmp_path / "out"
    assert call("export", "all", "--format", "csv", "-o", str(target)) == Exit.DONE
    said = capsys.readouterr().err
    assert "`python main.py show 1` says why): 1." in said
    assert "Run 2 cannot be read" in said


@pytest.mark.parametrize("format", [str(each) for each in Format])
def test_every_format_has_a_command(
    format: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    record_epochs("finished", (0.5,), name="../x")
    monkeypatch.chdir(tmp_path)
    assert call("export", "1", "--format", format) == Exit.DONE
    path = Path(capsys.readouterr().out.strip())
    assert path.parent == tmp_path
    assert path.exists()
    assert call("export", "1", "--format", format) == Exit.REFUSED
    assert "exists already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("export", "7", "--format", "csv"), "There is no run 7"),
        (("export", "all", "--format", "csv"), "There are no runs yet"),
        (("import", "missing.csv"), sentence("there-is-no-file-or-folder")),
        (("import", "main.py"), sentence("neither-tensorboard-event-file")),
    ],
)
def test_what_cannot_be_done_is_refused(
    arguments: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(*arguments) != Exit.DONE
    assert why in capsys.readouterr().err


def test_a_format_that_does_not_exist_is_refused_by_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        call("export", "all", "--format", "wandb")
    assert "--format invalid choice: 'wandb'" in capsys.readouterr().err


def test_the_step_column_is_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "a.csv"
    table.write_text("when,reward\n10,0.5\n")
    assert call("import", str(table)) == Exit.REFUSED
    assert "--step-column" in capsys.readouterr().err
    assert call("import", str(table), "--step-column", "when") == Exit.DONE
    assert run_info.get_run("1").status.step == 10
