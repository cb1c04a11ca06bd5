"""Tests the figures of `engine.planning.short_run`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from engine.planning import short_run


def points(times: list[float], steps: list[int] | None = None) -> Any:
    return SimpleNamespace(step=np.array(steps or range(1, len(times) + 1)), time=np.array(times))


def test_the_warm_up_is_the_first_two_chunks_or_a_tenth() -> None:
    assert short_run._warm_step(points([], [])) == 0
    assert short_run._warm_step(points([0, 0, 0], [1, 3, 9])) == 3
    assert short_run._warm_step(points([0], [1])) == 1
    assert short_run._warm_step(points([0, 0, 0], [1, 2, 60])) == 6


def test_validations_are_left_out_and_the_turn_of_an_epoch_counts() -> None:
    losses = points([10.0, 11.0, 12.0, 13.0, 20.5, 21.5])
    seconds = short_run._step_seconds(losses, 2, {4: 19.0})
    assert seconds == pytest.approx([1.0, 1.0, 1.5, 1.0])


def test_the_rates_are_those_of_equal_parts() -> None:
    assert short_run._rates([], 8.0) == ()
    assert short_run._rates([2.0], 8.0) == (4.0,)
    slow_fourth = [0.5, 0.5, 0.5, 2.5] * 10
    assert short_run._rates(slow_fourth, 8.0) == pytest.approx([8.0] * short_run.MOST_PARTS)
