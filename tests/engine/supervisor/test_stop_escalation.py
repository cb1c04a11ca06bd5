"""How a pool is ended: rung by rung, each with its time."""

from __future__ import annotations

import pytest

from engine.diagnosis.deadlines import STALL_SECONDS, AwakeClock
from engine.supervisor.stop_escalation import ASK_SECONDS, TERMINATE_SECONDS, StopEscalation


class Clock:
    """A clock that a test turns."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def done() -> list[str]:
    """What the ladder did."""
    return []


@pytest.fixture
def escalation(clock: Clock, done: list[str]) -> StopEscalation:
    return StopEscalation(done.append, clock)


def pass_time(escalation: StopEscalation, clock: Clock, seconds: float) -> None:
    clock.now += seconds
    escalation.tick()


def test_nothing_happens_before_somebody_asks(
    escalation: StopEscalation, clock: Clock, done: list[str]
) -> None:
    pass_time(escalation, clock, 10**6)
    assert done == []
    assert not escalation.is_stopping
    assert not escalation.used_force


def test_who_does_not_listen_is_terminated_and_then_killed(
    escalation: StopEscalation, clock: Clock, done: list[str]
) -> None:
    escalation.escalate_to("ask")
    pass_time(escalation, clock, ASK_SECONDS)
    assert done == ["ask"]
    pass_time(escalation, clock, 0.1)
    assert done == ["ask", "terminate"]
    pass_time(escalation, clock, TERMINATE_SECONDS)
    assert done == ["ask", "terminate"]
    pass_time(escalation, clock, 0.1)
    assert done == ["ask", "terminate", "kill"]


def test_there_is_nothing_above_kill(
    escalation: StopEscalation, clock: Clock, done: list[str]
) -> None:
    escalation.escalate_to("kill")
    pass_time(escalation, clock, 10**6)
    assert done == ["kill"]


def test_asking_alone_is_no_force(escalation: StopEscalation) -> None:
    escalation.escalate_to("ask")
    assert escalation.is_stopping
    assert not escalation.used_force
    escalation.escalate_to("terminate")
    assert escalation.used_force


def test_long_steps_get_time_to_end(
    escalation: StopEscalation, clock: Clock, done: list[str]
) -> None:
    escalation.escalate_to("ask", step_seconds=60.0)
    pass_time(escalation, clock, 600.0)
    assert done == ["ask"]
    pass_time(escalation, clock, 0.1)
    assert done == ["ask", "terminate"]


def test_asking_again_gives_no_more_time(
    escalation: StopEscalation, clock: Clock, done: list[str]
) -> None:
    escalation.escalate_to("ask")
    clock.now += ASK_SECONDS - 1
    escalation.escalate_to("ask")
    pass_time(escalation, clock, 2.0)
    assert done == ["ask", "terminate"]


def test_a_person_can_go_to_a_higher_rung_at_once_but_not_down(
    escalation: StopEscalation, done: list[str]
) -> None:
    escalation.escalate_to("terminate")
    escalation.escalate_to("ask")
    assert done == ["terminate"]


def test_a_sleep_of_the_machine_takes_no_time_from_who_is_asked(
    clock: Clock, done: list[str]
) -> None:
    escalation = StopEscalation(done.append, AwakeClock(clock))
    escalation.escalate_to("ask")
    pass_time(escalation, clock, 8 * 3600.0)
    assert done == ["ask"]
    for _ in range(int(ASK_SECONDS / STALL_SECONDS)):
        pass_time(escalation, clock, STALL_SECONDS)
    assert done == ["ask", "terminate"]
