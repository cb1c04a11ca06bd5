"""What the whole run is expected to take."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.planning.checks.checkpoints import DiskFacts
from engine.planning.checks.whole_run import Expectation, expectation, whole_run_finding
from tests.engine.planning.checks.conftest import Make
from tests.support.sentences import sentence

DISK = DiskFacts(folder=Path("/data"), free=2**40, bytes_per_second=100e6)


def test_steps_validations_and_checkpoints_are_added_up(made: Make) -> None:
    run = made(
        {"checkpoint_steps": 250, "checkpoint_minutes": 0.0},
        checkpoint_bytes=200_000_000,
        measured={"validation/batches": 20.0, "validation/batch_seconds": 0.05},
        joules=0.9,
    )
    found = expectation(run, DISK)
    assert (found.steps, found.saves) == (1000, 4)
    assert found.training == pytest.approx(100)
    assert found.validation == pytest.approx(10)  # ten epochs
    assert found.checkpoints == pytest.approx(10)  # and a last one
    assert found.seconds == pytest.approx(123)  # with the start
    assert found.wh == pytest.approx(16)
    text = whole_run_finding(run, found).text
    assert text == sentence("steps-of-whole-run-are-expected")


def test_a_number_of_steps_ends_with_a_validation(made: Make) -> None:
    measured = {"validation/batches": 20.0, "validation/batch_seconds": 0.05}
    run = made({"steps": 250}, measured=measured)
    assert expectation(run, DISK).validation == pytest.approx(3)


def test_a_stream_of_unknown_length_has_no_expectation(made: Make) -> None:
    run = made(steps_in_all=0, steps_per_epoch=0)
    found = expectation(run, DISK)
    assert found == Expectation()
    assert whole_run_finding(run, found).advice == "Choose a number of steps."


@pytest.mark.parametrize(
    ("limit", "change"),
    [
        ({"time_limit_minutes": 1.0}, {"time_limit_minutes": 12.0}),
        ({"energy_limit_wh": 10.0}, {"energy_limit_wh": 24.0}),
    ],
)
def test_a_limit_that_ends_the_run_before_is_told(
    made: Make, limit: dict[str, float], change: dict[str, float]
) -> None:
    found = whole_run_finding(made(limit), Expectation(seconds=600.0, steps=1000, wh=20.0))
    assert found.level == "warning"
    assert "ends it before" in found.text
    assert found.change is not None
    assert found.change.fields == change
