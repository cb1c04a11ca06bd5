"""What is said of a few real steps."""

from __future__ import annotations

import math

import msgspec
import pytest

from engine.planning.checks.training import (
    memory_finding,
    ranks_finding,
    step_seconds,
    steps_finding,
    weights_finding,
)
from tests.engine.planning.checks.conftest import Make
from tests.support.sentences import sentence

FULL = "GPU 0 is out of memory."


def shares(compute: float, communication: float, data: float) -> dict[str, float]:
    return {"compute": compute, "communication": communication, "data": data}


def test_steps_that_went_well_are_told_with_their_numbers(made: Make) -> None:
    found = steps_finding(made())
    assert found.level == "ok"
    assert found.text == sentence("steps-were-trained-on-devices-first")


def test_a_failure_is_told_with_its_place(made: Make) -> None:
    found = steps_finding(made(problem="It broke.", where="mine.py:7"))
    assert (found.level, found.text) == ("error", sentence("it-did-not-train-it-broke"))


@pytest.mark.parametrize(
    "problem",
    [
        "The DataLoader has the batch size 10, and the run has 128: choose 10 for the run (D",
        "The batches have 10 samples, and the run has 128: choose 10 for the run (in the",
    ],
)
def test_data_in_batches_of_their_own_say_which_batch_size_trains(made: Make, problem: str) -> None:
    change = steps_finding(made(problem=problem)).change
    assert change is not None
    assert change.fields == {"batch_size": 10}


@pytest.mark.parametrize(
    ("seconds", "where", "level"),
    [(50.0, "mine.py:7", "error"), (5.0, "mine.py:7", "warning"), (50.0, "", "warning")],
)
def test_a_slow_start_is_told_from_a_recipe_that_hangs(
    made: Make, seconds: float, where: str, level: str
) -> None:
    run = made(steps=0, problem="It did no step.", where=where, seconds=seconds, is_late=True)
    assert steps_finding(run).level == level


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_an_error_with_a_smaller_learning_rate(
    made: Make, bad: float
) -> None:
    found = steps_finding(made({"learning_rate": 0.5}, losses=(1.0, bad)))
    assert (found.level, found.text) == ("error", sentence("loss-of-step-is-not-finite"))
    assert found.change is not None
    assert found.change.fields == {"learning_rate": 0.05}


def test_the_time_of_quick_steps_comes_from_the_throughput(made: Make) -> None:
    assert step_seconds(made(step_seconds=0.0)) == pytest.approx(0.1)
    assert step_seconds(made(step_seconds=0.0, samples_per_second=0.0)) == 0


def test_one_rank_has_no_others_to_wait_for(made: Make) -> None:
    assert ranks_finding(made(rank_shares={0: shares(1, 0, 0)})) is None


def test_equal_ranks_are_fine(made: Make) -> None:
    found = ranks_finding(made())
    assert found is not None
    assert found.level == "ok"


@pytest.mark.parametrize(
    ("slow", "does"), [(shares(0.9, 0.05, 0.05), "computes"), (shares(0.1, 0.05, 0.85), "loads")]
)
def test_a_straggling_rank_is_named(made: Make, slow: dict[str, float], does: str) -> None:
    found = ranks_finding(made(rank_shares={0: shares(0.3, 0.7, 0.0), 1: slow}))
    assert found is not None
    assert found.level == "warning"
    assert found.text.startswith(sentence("rank-straggles-it", does=does))
    assert sentence("of-step-others") in found.text


def test_ranks_with_the_same_weights_train_one_model(made: Make) -> None:
    same = weights_finding(made(measured={"rank/0/weights": 3.25, "rank/1/weights": 3.25}))
    other = weights_finding(made(measured={"rank/0/weights": 3.25, "rank/1/weights": 3.5}))
    assert same is not None
    assert other is not None
    assert (same.level, other.level) == ("ok", "error")
    assert weights_finding(made(measured={"rank/0/weights": 3.25})) is None


def test_a_batch_that_is_too_large_gets_accumulation_steps(made: Make) -> None:
    spec = made({"batch_size": 512}).spec
    half = msgspec.structs.replace(spec, accumulation=2)
    quarter = msgspec.structs.replace(spec, accumulation=4)
    found = memory_finding(spec, FULL, [half], quarter, 2, has_trained=True)
    assert (found.level, found.text) == (
        "error",
        sentence("batch-is-too-large-for-gpu"),
    )
    assert found.advice.startswith(sentence("it-trained-with-accumulation-steps"))
    assert sentence("batch-size-should-fit-too") in found.advice
    assert found.change is not None
    assert found.change.fields == {"accumulation": 4}


def test_a_run_that_makes_its_parts_smaller_by_itself_is_only_warned(made: Make) -> None:
    spec = made({"batch_size": 512, "on_oom": "shrink"}).spec
    half = msgspec.structs.replace(spec, accumulation=2)
    assert memory_finding(spec, FULL, [], half, 2, has_trained=True).level == "warning"


def test_without_time_to_try_it_the_next_smaller_part_is_proposed(made: Make) -> None:
    spec = made({"batch_size": 512}).spec
    half = msgspec.structs.replace(spec, accumulation=2)
    found = memory_finding(spec, FULL, [], half, 2, has_trained=False)
    assert found.advice.startswith(sentence("there-was-no-time-to-try"))
    assert found.change is not None
    assert found.change.fields == {"accumulation": 2}


def test_where_accumulation_is_refused_the_batch_gets_smaller(made: Make) -> None:
    spec = made({"batch_size": 512}).spec
    smaller = msgspec.structs.replace(spec, batch_size=128)
    found = memory_finding(spec, FULL, [], smaller, 2, has_trained=True)
    assert found.change is not None
    assert found.change.fields == {"batch_size": 128}


def test_a_model_that_fits_with_no_batch_is_told_with_what_was_tried(made: Make) -> None:
    spec = made({"batch_size": 4}).spec
    half = msgspec.structs.replace(spec, accumulation=2)
    found = memory_finding(spec, FULL, [half], None, 2, has_trained=False)
    assert sentence("nor-was-there-room-with-per") in found.text
    assert found.change is None
