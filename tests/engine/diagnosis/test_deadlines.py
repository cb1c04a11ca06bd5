"""What a supervisor waits for, and for how long, on a clock that the tests turn."""

from __future__ import annotations

import pytest

from engine.diagnosis.deadlines import (
    DRAIN_SECONDS,
    LEAVE_SECONDS,
    MOURNING_SECONDS,
    STALL_SECONDS,
    AwakeClock,
    Deadlines,
)

LOOK_SECONDS = STALL_SECONDS / 4


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def deadlines(clock: Clock, longest_silence: float = 8.0) -> Deadlines:
    """Of three workers, of which two are ready."""
    made = Deadlines((0, 1, 2), 60.0, longest_silence, clock)
    made.ready(0)
    made.ready(1)
    return made


def watch(made: Deadlines, clock: Clock, seconds: float, *, alive: tuple[int, ...]) -> int | None:
    """Who is silent at the end of `seconds`, or before, while the others speak."""
    for _ in range(int(seconds / LOOK_SECONDS)):
        clock.now += LOOK_SECONDS
        for rank in alive:
            made.heard(rank)
        if (silent := made.silent()) is not None:
            return silent
    return None


def test_a_rank_that_says_nothing_any_more_is_named(clock: Clock) -> None:
    made = deadlines(clock)
    assert watch(made, clock, 8.0, alive=(0,)) is None
    assert watch(made, clock, 1.0, alive=(0,)) == 1


def test_the_one_that_fell_silent_first_is_to_blame(clock: Clock) -> None:
    made = deadlines(clock)
    assert watch(made, clock, 1.0, alive=(0,)) is None
    assert watch(made, clock, 9.0, alive=()) == 1


def test_ranks_that_start_or_have_left_may_be_silent(clock: Clock) -> None:
    made = deadlines(clock)
    made.gone(1)
    assert watch(made, clock, 30.0, alive=(0,)) is None


def test_where_the_framework_notices_nobody_is_watched(clock: Clock) -> None:
    made = deadlines(clock, longest_silence=float("inf"))
    assert watch(made, clock, 1000.0, alive=()) is None


def test_a_supervisor_that_was_held_up_blames_nobody(clock: Clock) -> None:
    made = deadlines(clock)
    made.silent()
    clock.now += 3600.0
    assert made.silent() is None
    assert watch(made, clock, 8.0, alive=()) is None
    assert watch(made, clock, 1.0, alive=()) == 0


def test_who_is_late_is_named_once_the_time_is_up(clock: Clock) -> None:
    made = deadlines(clock)
    clock.now += 60.0
    assert made.late() == []
    clock.now += 0.1
    assert made.late() == [2]


def test_the_end_comes_soonest_after_a_failure(clock: Clock) -> None:
    made = deadlines(clock)
    made.leave()
    clock.now += LEAVE_SECONDS / 2
    assert not made.over
    made.start_failure_grace()
    assert not made.over
    clock.now += MOURNING_SECONDS + 0.1
    assert made.over
    made.drain()
    clock.now += DRAIN_SECONDS + 0.1
    assert made.over


def test_a_sleep_of_the_machine_ends_nothing(clock: Clock) -> None:
    made = Deadlines((0, 1), 60.0, 8.0, AwakeClock(clock))
    made.ready(0)
    made.leave()
    for _ in range(3):
        clock.now += 8 * 3600.0
        assert (made.silent(), made.late(), made.over) == (None, [], False)
    for _ in range(30):
        clock.now += STALL_SECONDS
    assert not made.over, "nobody looked"
    for _ in range(30):
        clock.now += STALL_SECONDS
        made.silent()
    assert made.late() == [1]
    assert made.over
