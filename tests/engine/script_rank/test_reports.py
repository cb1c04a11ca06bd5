"""What a rank tells of its script, without processes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from engine.messages.events import Metrics, Notice, Progress
from engine.script_rank.figures import Figure
from engine.script_rank.frames import NewPoints
from engine.script_rank.reports import Reports
from engine.worker.session import WorkerSession


@pytest.fixture
def told() -> list[Any]:
    return []


@pytest.fixture
def reports(told: list[Any]) -> Reports:
    spec = SimpleNamespace(on_nan="continue")
    session = SimpleNamespace(rank=0, world_size=1, spec=spec, emit=told.append)
    return Reports(cast(WorkerSession, session), 0)


def logged(*points: tuple[str, int], step: int = 0) -> NewPoints:
    return NewPoints([(series, [at], [1.0], []) for series, at in points], step)


def test_a_script_without_an_optimizer_is_at_the_step_of_what_it_logs(
    reports: Reports, told: list[Any]
) -> None:
    reports.points(logged(("loss", 4), ("rank/0/memory_allocated", 9)))
    reports.points(logged(("part_a", 3)))
    assert [each.step for each in told if isinstance(each, Progress)] == [4]
    assert reports.last_step == 4


def test_steps_of_an_optimizer_go_before_those_of_loggers_and_lines(
    reports: Reports, told: list[Any]
) -> None:
    reports.figures([Figure("train/loss", 7, 0.5)], 0)
    reports.points(logged(("eval", 900)))
    reports.points(logged(("eval", 901), step=2))
    assert [each.step for each in told if isinstance(each, Progress)] == [7, 900, 2]


def test_points_at_steps_that_are_none_are_left_out_and_said_once(
    reports: Reports, told: list[Any]
) -> None:
    steps, values = [-1, 0, 2**70, 2], [0.1, 0.2, 0.3, 0.4]
    reports.points(NewPoints([("eval", steps, values, [1.0, 2.0, 3.0, 4.0])]))
    reports.points(logged(("eval", -3)))
    [metrics] = [each for each in told if isinstance(each, Metrics)]
    [points] = metrics.points
    assert (points.steps, points.values, points.times) == ([0, 2], [0.2, 0.4], [2.0, 4.0])
    [notice] = [each.text for each in told if isinstance(each, Notice)]
    assert "'eval'" in notice
