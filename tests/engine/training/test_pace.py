"""The length of a chunk, the speed, and the time left."""

from __future__ import annotations

import pytest

from engine.training.pace import MOST_STEPS, RATE_HALF_LIFE, Pace


def test_before_the_first_step_nothing_is_known() -> None:
    pace = Pace()
    assert (pace.chunk, pace.validation_chunk) == (1, 1)
    assert (pace.samples_per_second, pace.step_seconds, pace.seconds_left(100, 5)) == (0, 0, 0)


def test_a_chunk_grows_to_about_a_tenth_of_a_second_by_doubling() -> None:
    pace = Pace()
    sizes = []
    for _ in range(6):
        pace.trained(pace.chunk, 32.0 * pace.chunk, 0.01 * pace.chunk)
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
    pace = Pace()
    pace.trained(steps, 32.0 * steps, seconds)
    pace.validated(steps, seconds)
    assert (pace.chunk, pace.validation_chunk) == (chunk, chunk)


def test_the_first_chunk_which_also_compiles_is_forgotten() -> None:
    pace = Pace()
    pace.trained(1, 32.0, 60.0)
    pace.trained(2, 64.0, 0.5)
    assert pace.step_seconds == 0.25
    assert pace.samples_per_second == 128.0
    assert pace.seconds_left(100, 0) == 25.0


def test_the_rate_counts_the_samples_that_were_there() -> None:
    """A batch of 5,000 from 1,437 samples, and a short last batch."""
    pace = Pace()
    for _ in range(5):
        pace.trained(1, 1437.0, 0.1)
    assert pace.samples_per_second == pytest.approx(14_370.0)
    pace = Pace()
    for _ in range(20):
        pace.trained(22, 64.0 * 22, 2.2)
        pace.trained(1, 29.0, 0.1)
    assert pace.samples_per_second == pytest.approx(1437 / 2.3, rel=0.02), "no number of one step"


def test_validation_is_no_part_of_the_rate() -> None:
    pace = Pace()
    for _ in range(4):
        pace.trained(1, 50.0, 0.5)
        pace.validated(10, 60.0)
    assert pace.samples_per_second == pytest.approx(100.0)


def test_the_speed_is_smoothed() -> None:
    pace = Pace()
    for seconds in (1.0, 1.0, 2.0):
        pace.trained(1, 32.0, seconds)
    kept = 0.5 ** (2.0 / RATE_HALF_LIFE)
    assert pace.step_seconds == pytest.approx((kept * 1.0 + 2.0) / (kept + 1))


def test_step_time_and_throughput_say_the_same() -> None:
    pace = Pace()
    for number in range(40):
        pace.trained(1 + number % 3, 64.0 * (1 + number % 3), 0.1 + number % 7)
    assert pace.samples_per_second * pace.step_seconds == pytest.approx(64.0)


def test_the_step_time_is_that_of_the_steps_since_it_was_taken() -> None:
    pace = Pace()
    pace.trained(1, 32.0, 60.0)
    pace.trained(2, 64.0, 6.0)
    assert pace.take_step_seconds() is None, "the first steps also compile"
    pace.trained(2, 64.0, 1.0)
    pace.trained(3, 96.0, 0.5)
    pace.validated(10, 60.0)
    assert pace.take_step_seconds() == 0.3
    assert pace.take_step_seconds() is None


def test_the_time_left_includes_the_validations_that_are_still_to_come() -> None:
    pace = Pace()
    pace.trained(1, 32.0, 9.0)
    pace.trained(10, 320.0, 1.0)
    assert pace.seconds_left(100, 30) == pytest.approx(10.0 + 1.0), "a guess: a third of a step"
    pace.validated(1, 7.0)
    pace.validated(5, 1.0)
    assert pace.seconds_left(100, 30) == pytest.approx(10.0 + 6.0)
    assert pace.seconds_left(100, 0) == pytest.approx(10.0)


def test_a_resume_at_the_end_of_an_epoch_does_not_make_the_steps_look_slow() -> None:
    pace = Pace()
    for _ in range(3):
        pace.trained(1, 32.0, 0.1)
    for _ in range(3):
        pace.validated(100, 10.0)
    assert pace.seconds_left(1000, 100) == pytest.approx(110.0)


def test_the_time_left_follows_a_speed_that_has_changed() -> None:
    pace = Pace()
    for _ in range(3600):
        pace.trained(10, 320.0, 1.0)
    for _ in range(300):
        pace.trained(5, 160.0, 1.0)
    assert pace.seconds_left(100, 0) == pytest.approx(20.0, rel=0.05)
