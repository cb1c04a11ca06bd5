"""The length of a chunk, the speed, and the time left."""

from __future__ import annotations

import pytest

from engine.training.pace import MOST_STEPS, Pace


def test_before_the_first_step_nothing_is_known() -> None:
    pace = Pace(batch_size=32)
    assert (pace.chunk, pace.validation_chunk) == (1, 1)
    assert (pace.samples_per_second, pace.step_seconds, pace.seconds_left(100, 5)) == (0, 0, 0)


def test_a_chunk_grows_to_about_a_tenth_of_a_second_by_doubling() -> None:
    pace = Pace(batch_size=32)
    sizes = []
    for _ in range(6):
        pace.trained(pace.chunk, 0.01 * pace.chunk)
        sizes.append(pace.chunk)
    assert sizes == [2, 4, 8, 10, 10, 10]


@pytest.mark.parametrize(
    ("steps", "seconds", "chunk"),
    [
        (10, 10.0, 1),
        (10, 0.5, 2),
        (1000, 1e-6, MOST_STEPS),
        (400, 0.0, 800),
    ],
)
def test_the_next_chunk(steps: int, seconds: float, chunk: int) -> None:
    pace = Pace(batch_size=32)
    pace.trained(steps, seconds)
    pace.validated(steps, seconds)
    assert (pace.chunk, pace.validation_chunk) == (chunk, chunk)


def test_the_first_chunk_which_also_compiles_is_forgotten() -> None:
    pace = Pace(batch_size=32)
    pace.trained(1, 60.0)
    pace.trained(2, 0.5)
    assert pace.step_seconds == 0.25
    assert pace.samples_per_second == 128.0
    assert pace.seconds_left(100, 0) == 25.0


def test_the_speed_is_smoothed() -> None:
    pace = Pace(batch_size=32)
    for seconds in (1.0, 1.0, 2.0):
        pace.trained(1, seconds)
    assert 1.0 < pace.step_seconds < 1.5


def test_the_time_left_includes_the_validations_that_are_still_to_come() -> None:
    pace = Pace(batch_size=32)
    pace.trained(1, 9.0)
    pace.trained(10, 1.0)
    assert pace.seconds_left(100, 30) == pytest.approx(10.0 + 1.0), "a guess: a third of a step"
    pace.validated(1, 7.0)
    pace.validated(5, 1.0)
    assert pace.seconds_left(100, 30) == pytest.approx(10.0 + 6.0)
    assert pace.seconds_left(100, 0) == pytest.approx(10.0)


def test_a_resume_at_the_end_of_an_epoch_does_not_make_the_steps_look_slow() -> None:
    pace = Pace(batch_size=32)
    for _ in range(3):
        pace.trained(1, 0.1)
    for _ in range(3):
        pace.validated(100, 10.0)
    assert pace.seconds_left(1000, 100) == pytest.approx(110.0)


def test_the_time_left_follows_a_speed_that_has_changed() -> None:
    pace = Pace(batch_size=32)
    for _ in range(3600):
        pace.trained(10, 1.0)
    for _ in range(300):
        pace.trained(5, 1.0)
    assert pace.seconds_left(100, 0) == pytest.approx(20.0, rel=0.05)
