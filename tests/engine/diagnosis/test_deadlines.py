"""How long a supervisor waits for its workers, on a clock that the tests move."""

from __future__ import annotations

import pytest

from engine.diagnosis.deadlines import (
    CUT_OFF_SECONDS,
    DRAIN_SECONDS,
    EXIT_SECONDS,
    FAILURE_GRACE_SECONDS,
    STALL_SECONDS,
    AwakeClock,
    Deadlines,
)
from engine.messages.channel import LOADING, Alive

LOOK_SECONDS = STALL_SECONDS / 4


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """On this clock the workers have a minute to start."""
    monkeypatch.setattr("engine.diagnosis.deadlines.START_SECONDS", 60.0)
    return Clock()


def deadlines(clock: Clock, heartbeat_timeout: float = 8.0) -> Deadlines:
    """The deadlines of three workers, of which two are ready."""
    made = Deadlines((0, 1, 2), heartbeat_timeout, clock)
    made.ready(0)
    made.ready(1)
    return made


def watch(made: Deadlines, clock: Clock, seconds: float, *, alive: tuple[int, ...]) -> int | None:
    """The rank that is silent after `seconds` or less, while those in `alive` send messages."""
    for _ in range(int(seconds / LOOK_SECONDS)):
        clock.now += LOOK_SECONDS
        for rank in alive:
            made.received(rank)
        if (silent := made.silent_rank()) is not None:
            return silent
    return None


def test_a_silent_rank_is_named(clock: Clock) -> None:
    made = deadlines(clock)
    assert watch(made, clock, 8.0, alive=(0,)) is None
    assert watch(made, clock, 1.0, alive=(0,)) == 1


def test_the_rank_that_fell_silent_first_is_named(clock: Clock) -> None:
    made = deadlines(clock)
    assert watch(made, clock, 1.0, alive=(0,)) is None
    assert watch(made, clock, 9.0, alive=()) == 1


def test_ranks_that_start_or_have_disconnected_may_be_silent(clock: Clock) -> None:
    made = deadlines(clock)
    made.disconnected(1)
    assert watch(made, clock, 30.0, alive=(0,)) is None


def test_an_infinite_silence_names_no_rank(clock: Clock) -> None:
    made = deadlines(clock, heartbeat_timeout=float("inf"))
    assert watch(made, clock, 1000.0, alive=()) is None


def test_after_a_gap_of_the_supervisor_the_silence_is_counted_anew(clock: Clock) -> None:
    made = deadlines(clock)
    made.silent_rank()
    clock.now += 3600.0
    assert made.silent_rank() is None
    assert watch(made, clock, 8.0, alive=()) is None
    assert watch(made, clock, 1.0, alive=()) == 0


def test_a_late_rank_is_named_once_its_time_is_over(clock: Clock) -> None:
    made = deadlines(clock)
    clock.now += 60.0
    assert made.late_ranks() == []
    clock.now += 0.1
    assert made.late_ranks() == [2]


def test_the_time_to_start_begins_again_once_all_workers_are_launched(clock: Clock) -> None:
    made = deadlines(clock)
    clock.now += 59.0
    made.launched()
    clock.now += 60.0
    assert made.late_ranks() == []
    clock.now += 0.1
    assert made.late_ranks() == [2]


def test_the_end_comes_soonest_after_a_failure(clock: Clock) -> None:
    made = deadlines(clock)
    made.training_ended()
    clock.now += EXIT_SECONDS / 2
    assert not made.is_over
    made.start_failure_grace()
    assert not made.is_over
    clock.now += FAILURE_GRACE_SECONDS + 0.1
    assert made.is_over
    made.all_exited()
    clock.now += DRAIN_SECONDS + 0.1
    assert made.is_over


def test_a_sleep_of_the_machine_ends_nothing(clock: Clock) -> None:
    made = Deadlines((0, 1), 8.0, AwakeClock(clock))
    made.ready(0)
    made.training_ended()
    for _ in range(3):
        clock.now += 8 * 3600.0
        assert (made.silent_rank(), made.late_ranks(), made.is_over) == (None, [], False)
    for _ in range(30):
        clock.now += STALL_SECONDS
    assert not made.is_over, "nothing has called the clock"
    for _ in range(30):
        clock.now += STALL_SECONDS
        made.silent_rank()
    assert made.late_ranks() == [1]
    assert made.is_over


def test_a_worker_is_cut_off_if_it_lives_on_after_its_connection(clock: Clock) -> None:
    limits = deadlines(clock)
    limits.disconnected(1)
    clock.now += CUT_OFF_SECONDS
    assert limits.cut_off_ranks() == []
    clock.now += LOOK_SECONDS
    assert limits.cut_off_ranks() == [1]
    limits.leave_within(1.0)
    assert not limits.is_over
    clock.now += 1.5
    assert limits.is_over


def test_a_late_end_of_the_attempt_before_does_not_cut_a_worker_off(clock: Clock) -> None:
    limits = deadlines(clock)
    limits.disconnected(1)
    limits.ready(1)
    clock.now += CUT_OFF_SECONDS + LOOK_SECONDS
    assert limits.cut_off_ranks() == []


def test_all_ranks_have_their_time_again_while_one_loads_its_checkpoint(clock: Clock) -> None:
    made = deadlines(clock)
    for size in range(5):
        clock.now += 59.0
        made.loads(2, Alive(LOADING, size))
        assert made.late_ranks() == []
    clock.now += 59.0
    made.loads(2, Alive(LOADING, 4))  # no more was loaded
    made.loads(1, Alive(LOADING, 9))  # that rank has started
    clock.now += 2.0
    assert made.late_ranks() == [2]
