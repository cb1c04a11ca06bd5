"""What `sweep list` and `sweep show` say of sweeps that no process drives."""

from __future__ import annotations

import json

import pytest

from engine.sweeps import sweep as sweeps
from main import main
from tests.support.made_sweeps import make_sweep

Text = pytest.CaptureFixture[str]

WHY = "3 trials in turn could not be started. The last reason: the disk is full."


def test_a_sweep_that_starts_no_more_trials_says_why(capsys: Text) -> None:
    make_sweep(2, with_runs=False)
    sweeps.note_reason(make_sweep(2, trials=5, with_runs=False), WHY)
    assert main(["sweep", "list"]) == 0
    listed = capsys.readouterr()
    assert f"Sweep 2: {WHY}" in listed.err
    assert "Sweep 1" not in listed.err
    assert WHY not in listed.out, "the table has a line for each sweep"
    assert main(["sweep", "show", "2"]) == 0
    assert f"stopped: {WHY}" in capsys.readouterr().out
    assert main(["sweep", "show", "1"]) == 0
    assert "stopped:" not in capsys.readouterr().out
    assert main(["sweep", "list", "--json"]) == 0
    assert [each["reason"] for each in json.loads(capsys.readouterr().out)] == [WHY, ""]
