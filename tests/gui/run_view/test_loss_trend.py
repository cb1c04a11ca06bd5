"""The change of the mean loss from one epoch to the next."""

from __future__ import annotations

import numpy as np

from engine.runs.store.stored_points import StoredPoints
from gui.run_view.loss_trend import LossTrend


def losses(first: int, values: list[float]) -> StoredPoints:
    steps = np.arange(first, first + len(values), dtype=np.float64)
    return StoredPoints(steps, steps, np.array(values, np.float64), len(values))


def test_a_curve_that_has_lost_all_its_points_goes_on() -> None:
    trend = LossTrend()
    trend.add(losses(1, []), 50)
    trend.add(losses(1, [2.0] * 50), 50)
    trend.add(losses(51, []), 50)
    trend.add(losses(51, [1.0] * 50), 50)
    found = trend.trend(50)
    assert (found.change, found.tone) == (-0.5, "good")


def test_only_the_losses_of_two_epochs_are_kept() -> None:
    trend = LossTrend()
    for epoch in range(10):
        trend.add(losses(1 + 50 * epoch, [1.0] * 50), 50)
    assert sum(len(steps) for steps, _ in trend._losses) == 100
