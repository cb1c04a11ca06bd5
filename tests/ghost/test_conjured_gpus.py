"""The trainer of PyTorch on GPUs that do not exist: waits, types, memory that stays in a pause."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import msgspec
import pytest

from engine.processes.process import PROJECT
from tests.ghost import library
from tests.ghost.allowed import (
    LEFT,
    PER_BATCH,
    PER_CHUNK,
    PER_READ,
    PER_STEP,
    PER_VALIDATION,
    Allowed,
    expected,
)
from tests.ghost.table import KERAS_ON_GPUS
from tests.ghost.trials import ALL, FURTHER, NUMBERS, SOME, Found, Trial, trials_of

pytestmark = [
    pytest.mark.nightly,
    pytest.mark.timeout(1000),
    pytest.mark.skipif(bool(library.missing()), reason=library.missing()),
]

WITH_ALL = "TRAINDECK_ALL_TRIALS"
"""With this variable, every strategy has every combination of settings: a minute more."""

TRIALS = [*(trials_of(ALL) if WITH_ALL in os.environ else trials_of(*SOME)), *FURTHER]
SECONDS = 900.0
"""Longest wait; a machine with nothing else to do needs half a minute."""


class Results(msgspec.Struct):
    """What the program wrote."""

    trials: list[Found]
    checks: dict[str, str]

    def differences(self, what: str, allowed: tuple[Allowed, ...]) -> dict[str, Any]:
        """Return where the trials show another thing than what is allowed, by trial."""
        return {
            trial.name: {"found": seen, "allowed": may}
            for trial, found in zip(TRIALS, self.trials, strict=True)
            if (seen := getattr(found, what)) != (may := expected(allowed, trial))
        }


@pytest.fixture(scope="module")
def results(processes: None, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """All trials and checks, in one process: its imports take seconds."""
    library.built()
    folder = tmp_path_factory.mktemp("conjured")
    source, target = folder / "trials.json", folder / "found.json"
    source.write_bytes(msgspec.json.encode(TRIALS))
    ended = subprocess.run(
        [sys.executable, "-m", "tests.ghost.program", str(source), str(target)],
        cwd=PROJECT,
        env=os.environ | {"PYTHONPATH": str(PROJECT)} | KERAS_ON_GPUS,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert ended.returncode == 0, ended.stderr[-4000:]
    return msgspec.json.decode(target.read_bytes(), type=Results)


def by_trial(found: list[Found]) -> list[tuple[Trial, Found]]:
    return list(zip(TRIALS, found, strict=True))


def test_every_strategy_trains_validates_saves_and_pauses(results: Results) -> None:
    assert {t.name: f.error for t, f in by_trial(results.trials) if f.error} == {}


def test_the_host_waits_in_a_step_only_for_what_is_allowed(results: Results) -> None:
    assert results.differences("per_step", PER_STEP) == {}


def test_the_host_waits_in_a_chunk_only_for_what_is_allowed(results: Results) -> None:
    assert results.differences("per_chunk", PER_CHUNK) == {}


def test_the_host_waits_for_the_values_of_steps_only_when_they_are_read(results: Results) -> None:
    assert results.differences("per_read", PER_READ) == {}


def test_the_host_waits_in_a_validation_only_for_what_is_allowed(results: Results) -> None:
    assert results.differences("per_batch", PER_BATCH) == {}
    assert results.differences("per_validation", PER_VALIDATION) == {}


def test_every_gpu_computes_in_the_chosen_precision(results: Results) -> None:
    other = {
        trial.name: found.computed_in
        for trial, found in by_trial(results.trials)
        if found.computed_in != [NUMBERS[trial.precision]]
    }
    assert other == {}


def test_nothing_stays_on_a_gpu_that_is_freed(results: Results) -> None:
    assert all(found.before > 100_000 for found in results.trials)
    assert results.differences("left", LEFT) == {}


def test_a_checkpoint_pins_no_memory_of_the_host(results: Results) -> None:
    assert {t.name: f.pinned for t, f in by_trial(results.trials) if f.pinned} == {}


def test_ddp_has_each_gradient_once(results: Results) -> None:
    assert all(found.shares_buckets for found in results.trials)


def test_tensors_of_two_gpus_in_one_operation_raise(results: Results) -> None:
    assert "cuda:0 and cuda:1" in results.checks["mixed_devices"]


def test_the_data_take_memory_of_a_gpu_after_the_model_and_leave_it_in_a_pause(
    results: Results,
) -> None:
    assert results.checks["data_waits_for_the_model"] == "cpu cpu cuda cpu cuda"


def test_a_card_that_filled_up_in_a_pause_leaves_the_run_paused(results: Results) -> None:
    assert results.checks["full_card"] == " ".join(["full 0 full 0 trains"] * 2)
