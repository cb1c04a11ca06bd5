"""The stages in which a command is asked to end."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from engine.script_rank.stop import StopStages


class Stopping(NamedTuple):
    stages: StopStages
    entered: list[str]
    now: list[float]

    def at(self, seconds: float, *, catches: bool = True) -> list[str]:
        self.now[0] = seconds
        self.stages.tick(catches_terminate=catches)
        return self.entered


@pytest.fixture
def stopping() -> Stopping:
    entered: list[str] = []
    now = [0.0]
    return Stopping(StopStages(30.0, entered.append, lambda: now[0]), entered, now)


def test_at_a_step_then_by_signals(stopping: Stopping) -> None:
    stopping.stages.begin(at_step=True, step_seconds=0.1)
    assert stopping.at(9.9) == []
    assert stopping.at(10.0) == ["interrupt"]
    assert stopping.at(19.9) == ["interrupt"]
    assert stopping.at(20.0) == ["interrupt", "terminate"]
    assert stopping.at(1000.0) == ["interrupt", "terminate"]


def test_one_that_does_not_train_gets_a_signal_at_once(stopping: Stopping) -> None:
    stopping.stages.begin(at_step=False, step_seconds=0.0)
    assert stopping.entered == ["interrupt"]


def test_slow_steps_have_their_time(stopping: Stopping) -> None:
    stopping.stages.begin(at_step=True, step_seconds=10.0)
    assert stopping.at(49.0) == []
    assert stopping.at(50.0) == ["interrupt"]


def test_one_that_answers_gets_no_signal(stopping: Stopping) -> None:
    stopping.stages.begin(at_step=True, step_seconds=0.1)
    stopping.stages.answered()
    assert stopping.at(1000.0) == []


def test_a_save_has_the_time_once_more(stopping: Stopping) -> None:
    stopping.stages.begin(at_step=True, step_seconds=0.1)
    stopping.at(9.0)
    stopping.stages.wait_longer()
    assert stopping.at(18.9) == []
    assert stopping.at(19.0) == ["interrupt"]


def test_one_without_a_handler_for_sigterm_may_finish_what_it_does(stopping: Stopping) -> None:
    stopping.stages.begin(at_step=False, step_seconds=0.0)
    assert stopping.at(1000.0, catches=False) == ["interrupt"]
