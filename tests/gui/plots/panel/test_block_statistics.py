"""A curve of blocks is smoothed from the means of the blocks, not from the drawn extremes."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from engine.messages.events import Metrics, Points
from engine.runs.store.store_reader import RunReader
from engine.runs.store.stored_points import StoredPoints
from gui.plots.data.series import Series
from gui.plots.data.smoothing import MovingAverage
from gui.plots.panel.run_plots import RunPlots
from tests.gui.conftest import Record
from tests.gui.plots.data.test_series import plain_average

COUNT = 60_000


@pytest.fixture(scope="module")
def values() -> Any:
    """The mean of these is 1; the middle of 16 of them is more than 1.7."""
    return np.random.default_rng(0).exponential(size=COUNT)


@pytest.fixture
def curves(record: Record, values: Any) -> tuple[StoredPoints, StoredPoints]:
    """The whole series in blocks, and later points: 40,000 points and the rest."""
    run = record()
    run.begin()
    now = time.time()
    steps = list(range(1, COUNT + 1))
    run.add(Metrics(now - 60, now, [Points("train/loss", steps, values.tolist())]))
    with RunReader(run.folder) as reader:
        return reader.history("train/loss"), reader.overview_after("train/loss", 40_000)


@pytest.mark.parametrize("size", [0.5, 3.0, 8.0])
def test_a_point_for_several_steps_counts_as_often(size: float) -> None:
    values = np.array([2.0, 5.0, np.nan, 1.0, 7.0])
    found = MovingAverage(0.9).extend(values, size)
    every = max(1, int(size))
    keep = 0.9 ** (size / every)
    by_hand = plain_average(np.repeat(values, every), keep)[every - 1 :: every]
    np.testing.assert_allclose(found, by_hand, rtol=1e-12)


def test_a_point_for_very_many_steps_leaves_nothing_of_the_past() -> None:
    average = MovingAverage(0.9)
    values = np.array([3.0, np.nan, 4.0])
    np.testing.assert_array_equal(average.extend(values, 1e6), values)
    assert average.extend(np.array([5.0]))[0] == pytest.approx(4.1)


def test_a_curve_of_blocks_is_smoothed_like_its_points(
    curves: tuple[StoredPoints, StoredPoints], values: Any
) -> None:
    by_hand = plain_average(values, 0.999)
    for curve, first in zip(curves, (0, 40_000), strict=True):
        series = Series()
        series.set_smoothing(0.999)
        series.extend(np.arange(1.0, first + 1), values[:first])
        series.extend(curve.step, curve.value, curve.time, curve.statistics)
        xs, smoothed = series.smoothed_view(-np.inf, np.inf, len(series))
        ends = np.append(xs[1:] != xs[:-1], True)  # the later one of two at a step
        late = ends & (xs > 10_000)
        steps = xs[late].astype(int)
        nearest = by_hand[np.minimum(steps + 14, COUNT - 1)]
        assert np.abs(smoothed[late] - nearest).max() < 0.05
        assert curve.statistics is not None
        assert np.abs(curve.value - 1).mean() > 0.7, "the extremes themselves are far from it"


def test_a_plot_smooths_the_means_of_blocks(
    curves: tuple[StoredPoints, StoredPoints], run_plots: RunPlots
) -> None:
    whole, _ = curves
    run_plots.set_points("train/loss", whole)
    plot = run_plots.plot("Loss")
    plot.set_smoothing(0.99)
    point = plot.curves["train"].point_at(30_000)
    assert point.smoothed == pytest.approx(1.0, abs=0.3)
