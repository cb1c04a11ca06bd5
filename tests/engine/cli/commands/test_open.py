"""`open FILE` makes a run of a failure file, and opens the window on it."""

import json

import pytest

import main as program
from engine.cases.collection import write_case
from engine.messages.events import Failure, RunEnded
from engine.runs.run_info import get_run
from main import main
from tests.support.recorded_runs import RecordedRun


@pytest.fixture
def case(tmp_path):
    run = RecordedRun()
    run.begin()
    run.add(RunEnded("failed", "No.", Failure(0, "", 1, "", "No.", "", "")))
    run.store.close()
    return write_case(run.folder).rename(tmp_path / "a.tdcase")


def test_the_window_shows_the_run_first(case, monkeypatch, capsys):
    shown = []
    monkeypatch.setattr(program, "_open_window", lambda notice, run: shown.append(run) or 0)
    assert main(["open", str(case)]) == 0
    assert shown == ["2"]
    assert get_run("2").reason == "No."
    assert main(["open", "--json", str(case)]) == 0
    assert shown == ["2"]
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["run"] == "3"


def test_another_file_is_refused_in_a_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(program, "_open_window", lambda *_: pytest.fail("it opened"))
    for name, body in (("a.zip", b""), ("b.tdcase", b"no zip")):
        (tmp_path / name).write_bytes(body)
        assert main(["open", str(tmp_path / name)]) != 0
    assert main(["open", str(tmp_path / "none.tdcase")]) != 0
    assert capsys.readouterr().err.count("\n") >= 3
