"""How a pool is stopped: stage by stage, each with its time."""

from __future__ import annotations

import pytest

from engine.diagnosis.deadlines import STALL_SECONDS, AwakeClock
from engine.supervisor.stop_escalation import TERMINATE_SECONDS, StopEscalation

ASK_SECONDS = 30.0
"""The time of the first stage."""


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def entered() -> list[str]:
    """The stages that were entered."""
    return []


@pytest.fixture
def escalation(clock: Clock, entered: list[str]) -> StopEscalation:
    return StopEscalation(entered.append, ASK_SECONDS, lambda: 0, clock)


def pass_time(escalation: StopEscalation, clock: Clock, seconds: float) -> None:
    clock.now += seconds
    escalation.tick()


def test_nothing_happens_before_the_first_stage(
    escalation: StopEscalation, clock: Clock, entered: list[str]
) -> None:
    pass_time(escalation, clock, 10**6)
    assert entered == []
    assert not escalation.is_stopping
    assert not escalation.used_force


def test_a_pool_that_does_not_stop_is_terminated_and_then_killed(
    escalation: StopEscalation, clock: Clock, entered: list[str]
) -> None:
    escalation.escalate_to("ask")
    pass_time(escalation, clock, ASK_SECONDS)
    assert entered == ["ask"]
    pass_time(escalation, clock, 0.1)
    assert entered == ["ask", "terminate"]
    pass_time(escalation, clock, TERMINATE_SECONDS)
    assert entered == ["ask", "terminate"]
    pass_time(escalation, clock, 0.1)
    assert entered == ["ask", "terminate", "kill"]


def test_there_is_no_stage_after_kill(
    escalation: StopEscalation, clock: Clock, entered: list[str]
) -> None:
    escalation.escalate_to("kill")
    pass_time(escalation, clock, 10**6)
    assert entered == ["kill"]


def test_asking_is_not_force(escalation: StopEscalation) -> None:
    escalation.escalate_to("ask")
    assert escalation.is_stopping
    assert not escalation.used_force
    escalation.escalate_to("terminate")
    assert escalation.used_force


def test_long_steps_get_more_time(
    escalation: StopEscalation, clock: Clock, entered: list[str]
) -> None:
    escalation.escalate_to("ask", step_seconds=60.0)
    pass_time(escalation, clock, 600.0)
    assert entered == ["ask"]
    pass_time(escalation, clock, 0.1)
    assert entered == ["ask", "terminate"]


def test_asking_again_gives_no_more_time(
    escalation: StopEscalation, clock: Clock, entered: list[str]
) -> None:
    escalation.escalate_to("ask")
    clock.now += ASK_SECONDS - 1
    escalation.escalate_to("ask")
    pass_time(escalation, clock, 2.0)
    assert entered == ["ask", "terminate"]


def test_a_later_stage_can_be_entered_at_once_but_not_an_earlier_one(
    escalation: StopEscalation, entered: list[str]
) -> None:
    escalation.escalate_to("terminate")
    escalation.escalate_to("ask")
    assert entered == ["terminate"]


def test_a_sleep_of_the_machine_does_not_count(clock: Clock, entered: list[str]) -> None:
    escalation = StopEscalation(entered.append, ASK_SECONDS, lambda: 0, AwakeClock(clock))
    escalation.escalate_to("ask")
    pass_time(escalation, clock, 8 * 3600.0)
    assert entered == ["ask"]
    for _ in range(int(ASK_SECONDS / STALL_SECONDS)):
        pass_time(escalation, clock, STALL_SECONDS)
    assert entered == ["ask", "terminate"]


def test_a_save_has_its_time_again_while_it_grows(clock: Clock, entered: list[str]) -> None:
    size = 0
    escalation = StopEscalation(entered.append, ASK_SECONDS, lambda: size, clock)
    escalation.escalate_to("ask")
    for _ in range(20):
        size += 1
        pass_time(escalation, clock, ASK_SECONDS - 1)
    assert entered == ["ask"]
    pass_time(escalation, clock, ASK_SECONDS)
    assert entered == ["ask"]
    pass_time(escalation, clock, 0.1)
    assert entered == ["ask", "terminate"]


def test_a_growing_save_delays_neither_a_second_stop_nor_the_later_stages(
    clock: Clock, entered: list[str]
) -> None:
    size = 0
    escalation = StopEscalation(entered.append, ASK_SECONDS, lambda: size, clock)
    escalation.escalate_to("ask")
    pass_time(escalation, clock, 1.0)
    escalation.escalate_to("terminate")
    size += 1
    pass_time(escalation, clock, TERMINATE_SECONDS + 0.1)
    assert entered == ["ask", "terminate", "kill"]
