"""The points of a curve: the view against brute force, the moving average against a plain loop."""

from __future__ import annotations

import math

import numpy as np
import pytest

from engine.runs.store.downsampling import BlockStatistics
from gui.plots.data.growing_pyramid import Array
from gui.plots.data.series import PointReading, Series
from gui.plots.data.smoothing import MovingAverage

ALL = (-math.inf, math.inf)


def noisy(count: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(count).cumsum()


def series(values: Array, smoothing: float = 0.0) -> Series:
    """A series that is filled in uneven batches, as a run does."""
    made = Series()
    made.set_smoothing(smoothing)
    start, batch = 0, 1
    while start < len(values):
        made.extend(
            np.arange(float(start), min(start + batch, len(values))), values[start : start + batch]
        )
        start, batch = start + batch, batch * 3 % 1009 + 1
    return made


def plain_average(values: Array, keep: float) -> Array:
    total = weight = 0.0
    result = []
    for value in values:
        if math.isnan(value):
            result.append(math.nan)
            continue
        total = keep * total + (1 - keep) * value
        weight = keep * weight + (1 - keep)
        result.append(total / weight)
    return np.array(result)


@pytest.mark.parametrize("keep", [0.1, 0.6, 0.9, 0.999])
def test_the_average_is_that_of_the_plain_loop_also_of_a_run_that_has_exploded(keep: float) -> None:
    values = noisy(5000)
    values[[0, 7, 400, 401, 4999]] = np.nan
    _, smoothed = series(values, keep).smoothed_view(*ALL, 5000)
    np.testing.assert_allclose(smoothed, plain_average(values, keep), rtol=1e-12, atol=1e-12)
    values = np.geomspace(1e-30, 1e100, 900)
    _, smoothed = series(values, keep).smoothed_view(*ALL, 900)
    np.testing.assert_allclose(smoothed, plain_average(values, keep), rtol=1e-12)


def test_the_average_continues_from_batch_to_batch() -> None:
    values = noisy(3000)
    watched = Series()
    watched.set_smoothing(0.9)
    for start in range(0, 3000, 100):
        watched.extend(np.arange(float(start), start + 100), values[start : start + 100])
        watched.smoothed_view(*ALL, 3000)
    _, smoothed = watched.smoothed_view(*ALL, 3000)
    np.testing.assert_allclose(smoothed, plain_average(values, 0.9), rtol=1e-12, atol=1e-12)


def test_another_smoothing_starts_from_the_first_point_and_none_shows_the_points() -> None:
    values = noisy(300)
    changed = series(values, 0.5)
    changed.smoothed_view(*ALL, 300)
    changed.set_smoothing(0.9)
    np.testing.assert_allclose(changed.smoothed_view(*ALL, 300)[1], plain_average(values, 0.9))
    changed.set_smoothing(0.0)
    np.testing.assert_array_equal(changed.smoothed_view(*ALL, 300)[1], values)


@pytest.mark.parametrize("count", [400, 4_003, 70_001])
@pytest.mark.parametrize(("x0", "x1"), [(-math.inf, math.inf), (0.13, 0.77), (0.5, 0.5001)])
def test_a_view_keeps_every_peak_and_invents_none(count: int, x0: float, x1: float) -> None:
    values = noisy(count)
    values[count // 3 : count // 3 + 40] = np.nan
    values[count // 5] = np.inf
    pixels = 90
    xs, ys = series(values).view(x0 * count, x1 * count, pixels)
    assert len(xs) == len(ys) <= 4 * pixels + 2
    assert (np.diff(xs) >= 0).all()
    finite = np.where(np.isfinite(values), values, np.nan)
    steps = np.arange(count)
    inside = finite[(steps >= x0 * count) & (steps <= x1 * count)]
    if np.isfinite(inside).any():
        assert np.nanmax(ys) >= np.nanmax(inside)
        assert np.nanmin(ys) <= np.nanmin(inside)
    assert np.isin(ys[~np.isnan(ys)], finite).all()
    # Each column holds the extremes of the points from its step to the step of the next column.
    if len(xs) > 2 * pixels and len(ys) % 2 == 0 and (xs[::2] == xs[1::2]).all():
        edges = [*xs[::2], min(count, xs[-1] + (xs[2] - xs[0]))]
        for number in range(len(edges) - 2):
            part = finite[int(edges[number]) : int(edges[number + 1])]
            if np.isfinite(part).any():
                assert min(ys[2 * number : 2 * number + 2]) == np.nanmin(part)
                assert max(ys[2 * number : 2 * number + 2]) == np.nanmax(part)
            else:
                assert np.isnan(ys[2 * number : 2 * number + 2]).all()


def test_the_line_of_a_view_crosses_each_column_once() -> None:
    """What the line crosses, it paints: twice as long takes twice as long."""
    values = np.random.default_rng(0).uniform(size=100_000)
    _, ys = series(values).view(*ALL, 100)
    assert np.abs(np.diff(ys)).sum() < 1.1 * np.abs(ys[1::2] - ys[::2]).sum()


def test_few_points_are_drawn_as_they_are_with_a_neighbour_to_each_side() -> None:
    xs, ys = series(noisy(100)).view(20, 30, 500)
    assert xs.tolist() == list(range(19, 32))
    assert len(ys) == len(xs)


def test_columns_do_not_move_while_points_arrive() -> None:
    values = noisy(20_400)
    short, long = series(values[:20_001]), series(values)
    xs, ys = short.view(0, 20_000, 500)
    more_xs, more_ys = long.view(0, 20_000, 500)
    np.testing.assert_array_equal(xs[:-2], more_xs[: len(xs) - 2])
    np.testing.assert_array_equal(ys[:-2], more_ys[: len(ys) - 2])


def test_the_smoothed_view_is_the_mean_of_each_column_and_ends_at_the_newest_point() -> None:
    values = np.linspace(0, 1, 60_000)
    values[:1000] = np.nan
    xs, ys = series(values, 0.5).smoothed_view(*ALL, 200)
    assert len(xs) < 500
    assert xs[-1] == 59_999
    known = ~np.isnan(ys)
    assert 60 < known.sum() < len(ys)
    inner = np.flatnonzero(known)[1:]  # the first column is only partly known
    np.testing.assert_allclose(ys[inner], xs[inner] / 60_000, atol=2e-4)


def test_bounds_are_those_of_the_finite_values() -> None:
    values = noisy(5000) - 3
    values[[3, 50]] = np.inf, -np.inf
    values[10] = np.nan
    finite = values[np.isfinite(values)]
    assert series(values).bounds() == (finite.min(), finite.max())
    both = np.array([-1.0, 0.0, 0.25, 7.0])
    assert series(both).bounds(positive=True) == (0.25, 7.0)
    assert series(-both[2:]).bounds(positive=True) is None
    assert series(np.array([np.nan, np.inf])).bounds() is None


def test_values_near_a_step() -> None:
    here = Series()
    here.extend([10, 20, 30], [1.0, np.nan, 3.0])
    assert here.point_at(12) == approx_point(10, 1.0)
    assert here.point_at(26) == approx_point(30, 3.0)
    gap = here.point_at(21)
    assert math.isnan(gap.low)
    assert here.point_at(9) is here.point_at(31) is None
    assert here.point_at(9.6) == here.point_at(10), (
        "a pointer is never exactly over the first point"
    )
    assert here.point_at(30.4) == here.point_at(30)
    here.set_smoothing(0.5)
    smoothed = plain_average(np.array([1, 3]), 0.5)[1]
    assert here.point_at(30) == approx_point(30, 3.0, smoothed), "the value is still the point's"


def approx_point(step: float, value: float, smoothed: float = math.nan) -> object:
    return pytest.approx(PointReading(step, step, value, value, smoothed), nan_ok=True)


def test_a_block_of_points_is_no_single_value() -> None:
    """Of a long curve only the lowest and the highest value of each block of steps are known."""
    here = Series()
    low_and_high = np.array([0.25, 4.0, 0.5, 3.0])
    statistics = BlockStatistics(np.full(4, 1.0), np.full(4, 8.0))
    here.extend(np.array([0.0, 0.0, 16.0, 16.0]), low_and_high, None, statistics)
    for point, expected in ((here.point_at(2), (0.25, 4.0)), (here.newest_point(), (0.5, 3.0))):
        assert (point.low, point.high) == expected


def test_what_cannot_be_drawn_is_the_newest_value_as_it_is() -> None:
    here = Series()
    here.extend([1, 2], [1.0, math.inf])
    newest = here.newest_point()
    assert newest.low == newest.high == math.inf
    points = Series()
    points.extend([1, 2], [0.5, np.inf])
    assert points.last == math.inf
    points.extend([], [])
    assert points.last == math.inf


def test_it_is_empty_at_first_and_after_clear() -> None:
    points = series(noisy(1000), 0.9)
    assert len(points) == 1000
    points.clear()
    for empty in (points, Series()):
        assert len(empty) == 0
        assert empty.bounds() is None
        assert empty.x_range() is None
        assert math.isnan(empty.last)
        assert empty.point_at(3) is empty.newest_point() is None
        assert [len(part) for part in empty.view(0, 1, 100)] == [0, 0]
        assert [len(part) for part in empty.smoothed_view(0, 1, 100)] == [0, 0]
    assert points.smoothing == 0.9


def test_gaps_are_one_per_pixel_at_most() -> None:
    series = Series()
    assert series.gaps(0, 100, 10).tolist() == []
    values = np.ones(1000)
    values[[3, 500, 501]] = math.nan, math.inf, -math.inf
    values[900:] = math.nan
    series.extend(np.arange(1000), values)
    assert series.gaps(0, 1000, 10_000)[:4].tolist() == [3, 500, 501, 900]
    assert series.gaps(0, 1000, 10).tolist() == [3, 500, 900]
    assert series.gaps(501, 900, 5).tolist() == [501, 900]
    assert len(series.gaps(0, 1000, 100)) <= 12
    series.clear()
    assert series.gaps(0, 1000, 10).tolist() == []


def test_a_long_curve_is_smoothed_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gui.plots.data.series.SMOOTHED_PER_FRAME", 4000)
    values = np.random.default_rng(0).normal(size=10_000)
    part = Series()
    part.extend(np.arange(10_000.0), values)
    part.set_smoothing(0.9)
    ends = []
    while not part.is_smoothed:
        ends.append(part.smoothed_view(0, 1e4, 100)[0][-1])
    assert ends == [3999, 7999, 9999]
    whole = MovingAverage(0.9).extend(values)
    assert np.allclose(part._smoothed.values, whole)


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.99, 0.999])
def test_the_average_over_many_blocks_is_that_of_the_plain_loop(keep: float) -> None:
    values = np.random.default_rng(1).normal(size=9_001)
    values[5000] = np.nan
    average = MovingAverage(keep)
    parts = [average.extend(part) for part in np.split(values, [1, 4500, 4501])]
    known = ~np.isnan(values)
    found = np.concatenate(parts)
    assert np.allclose(found[known], plain_average(values[known], keep), rtol=1e-10)
    assert np.isnan(found[5000])


def test_what_cannot_be_drawn_is_read_as_it_is() -> None:
    here = series(np.array([1.0, math.inf, -math.inf, 1e301, math.nan, 2.0]))
    found = [point.low for step in range(6) if (point := here.point_at(step))]
    assert found == [1.0, math.inf, -math.inf, 1e301, pytest.approx(math.nan, nan_ok=True), 2.0]
    here.clear()
    here.extend([0, 1], [1.0, math.nan])
    gap = here.point_at(1)
    assert math.isnan(gap.low)


def test_a_spike_in_a_pixel_of_many_points_is_read_there() -> None:
    values = np.ones(10_000)
    values[4321] = 77.0
    here = series(values)
    pixel = 10_000 / 300
    xs, ys = here.view(0, 10_000, 300)
    drawn = float(xs[np.nanargmax(ys)])
    point = here.point_at(drawn, pixel)
    assert (point.low, point.high) == (1.0, 77.0)
    near = here.point_at(4321, 0.5)
    assert near.low == near.high == 77.0
