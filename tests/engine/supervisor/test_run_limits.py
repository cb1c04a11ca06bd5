"""When a run has used the time or the energy that its settings allow."""

from __future__ import annotations

from typing import Any

import pytest

from engine.runs.run_state import RunStatus
from engine.spec.run_spec import RunSpec
from engine.supervisor.run_limits import limit_reached

STATUS = RunStatus(attempt_started=1000.0, started=100.0, seconds_before=60.0, energy=4.0)


@pytest.mark.parametrize(
    ("limits", "now", "words"),
    [
        ({}, 1e9, ""),
        ({"time_limit_minutes": 3.0}, 1119.0, ""),
        ({"time_limit_minutes": 3.0}, 1120.0, "time limit of 3 min"),
        ({"energy_limit_wh": 4.1}, 1e9, ""),
        ({"energy_limit_wh": 4.0}, 1000.0, "energy limit of 4 Wh"),
    ],
)
def test_all_attempts_count_together(limits: dict[str, Any], now: float, words: str) -> None:
    spec = RunSpec(recipe="r", strategy="s", devices=("cpu:0",), **limits)
    found = limit_reached(spec, STATUS, now)
    assert words in found
    assert bool(found) == bool(words)
