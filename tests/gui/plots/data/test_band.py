"""Mean, deviation and number of several curves, against NumPy by hand."""

from __future__ import annotations

import numpy as np
import pytest

from engine.runs.store.downsampling import BlockStatistics
from gui.plots.data.band import band_of, quantile_band
from gui.plots.data.series import Series
from gui.plots.data.x_axis import XKind, XScale

X = np.array([0.0, 10.0, 20.0])


def test_at_common_points_it_is_the_mean_and_the_deviation_of_a_sample() -> None:
    values = np.random.default_rng(1).normal(size=(5, 3))
    band = band_of([(X, each) for each in values])
    assert band.x.tolist() == X.tolist()
    assert band.mean == pytest.approx(values.mean(axis=0))
    assert band.deviation == pytest.approx(values.std(axis=0, ddof=1)), "as the table has it"
    assert band.present.tolist() == [5, 5, 5]


def test_a_run_is_interpolated_between_its_points_and_counts_nowhere_else() -> None:
    short = np.array([5.0, 15.0]), np.array([2.0, 4.0])
    band = band_of([(X, np.array([0.0, 10.0, 20.0])), short])
    assert band.x.tolist() == [0.0, 5.0, 10.0, 15.0, 20.0]
    assert band.mean.tolist() == [0.0, 3.5, 6.5, 9.5, 20.0]
    assert band.present.tolist() == [1, 2, 2, 2, 1]
    spread = [np.std(pair, ddof=1) for pair in ((5, 2), (10, 3), (15, 4))]
    assert band.deviation == pytest.approx([0.0, *spread, 0.0])


def test_a_nan_counts_for_no_run_and_interrupts_where_no_run_has_data() -> None:
    lost = np.array([1.0, np.nan, 3.0])
    band = band_of([(X, lost), (X, np.array([3.0, 5.0, 7.0]))])
    assert band.mean.tolist() == [2.0, 5.0, 5.0]
    assert band.present.tolist() == [2, 1, 2]
    apart = band_of([(X, X), (X + 100.0, X)])
    assert apart.x.tolist() == [0.0, 10.0, 20.0, 60.0, 100.0, 110.0, 120.0]
    assert np.flatnonzero(np.isnan(apart.mean)).tolist() == [3], "no line from one run to another"
    assert apart.present.tolist() == [1, 1, 1, 0, 1, 1, 1]


def test_without_points_it_is_empty_and_of_many_it_keeps_both_ends() -> None:
    assert len(band_of([]).x) == 0
    assert len(band_of([(np.empty(0), np.empty(0))]).x) == 0
    many = np.arange(10_001.0)
    band = band_of([(many, many), (many + 0.5, many)], most=100)
    assert len(band.x) == 100
    assert (band.x[0], band.x[-1]) == (0.0, 10_000.5)


def test_the_line_of_a_series_has_the_means_of_blocks_and_breaks_where_the_run_was_down() -> None:
    series = Series()
    series.set_x_scale(XScale(XKind.WALL, restart_times=(150.0,)))
    means = BlockStatistics(np.array([2.0, 2.0]), np.array([8.0, 8.0]))
    series.extend([0.0, 0.0], [1.0, 5.0], np.array([100.0, 100.0]), means)
    series.extend([16.0, 17.0], [3.0, 4.0], np.array([110.0, 200.0]))
    xs, ys = series.line()
    assert xs.tolist() == [100.0, 100.0, 110.0, 200.0, 200.0]
    assert ys.tolist()[:3] == [2.0, 2.0, 3.0]
    assert np.isnan(ys[3])
    assert ys[4] == 4.0
    assert series.last == 4.0
    assert series.bounds() == (1.0, 5.0), "the series itself is unchanged"
    band = band_of([(xs, ys)])
    assert np.isnan(band.mean).tolist() == [False, False, True, False]


def test_quantiles_lie_around_the_median_of_the_lines_that_are_there() -> None:
    values = np.random.default_rng(2).normal(size=(11, 3))
    band = quantile_band([(X, each) for each in values], 0.1, 0.9)
    assert band.mean == pytest.approx(np.median(values, axis=0))
    assert band.edges[0] == pytest.approx(np.quantile(values, 0.1, axis=0))
    assert band.edges[1] == pytest.approx(np.quantile(values, 0.9, axis=0))


def test_a_line_counts_in_quantiles_only_between_its_ends() -> None:
    short = np.array([10.0]), np.array([5.0])
    band = quantile_band([(X, np.array([1.0, 2.0, 3.0])), short], 0.0, 1.0)
    assert band.present.tolist() == [1, 2, 1]
    assert band.mean.tolist() == [1.0, 3.5, 3.0]
    assert band.edges is not None
    assert [each.tolist() for each in band.edges] == [[1.0, 2.0, 3.0], [1.0, 5.0, 3.0]]
