"""The min/max pyramid, against a computation by hand."""

from __future__ import annotations

import numpy as np
import pytest

from engine.runs.store.downsampling import (
    FACTOR,
    Array,
    Blocks,
    PyramidTail,
    concatenate,
    merge,
    single,
    zigzag,
)


def points(values: Array, first: int = 0) -> Blocks:
    """Values at the steps `first`, `first + 1`, ... and at ten times that as times."""
    steps = np.arange(first, first + len(values), dtype=np.float64)
    return single(steps, 10 * steps, values)


def noise(count: int) -> Array:
    """Numbers with a NaN here and there, and a long run of them."""
    values = np.random.default_rng(0).normal(size=count)
    values[::7] = np.nan
    values[32:64] = np.nan
    return values


def by_hand(whole: Blocks, level: int) -> list[list[float]]:
    """Rows step, time, low, high of every complete block of `level`."""
    size = FACTOR**level
    rows = []
    for begin in range(0, len(whole.step) // size * size, size):
        values = [value for value in whole.low[begin : begin + size] if not np.isnan(value)]
        low, high = (min(values), max(values)) if values else (np.nan, np.nan)
        rows.append([whole.step[begin], whole.time[begin], low, high])
    return rows


@pytest.mark.parametrize("chunk", [1, 3, 16, 17, 255, 600, 1000])
def test_points_that_come_in_chunks_build_the_same_pyramid_as_by_hand(chunk: int) -> None:
    values = noise(600)
    tail = PyramidTail()
    levels: list[list[Blocks]] = []
    for begin in range(0, len(values), chunk):
        for level, blocks in enumerate(tail.extend(points(values[begin : begin + chunk], begin))):
            if level == len(levels):
                levels.append([])
            levels[level].append(blocks)
    for level in (1, 2):
        built = np.concatenate([np.array(blocks) for blocks in levels[level - 1]], axis=1).T
        np.testing.assert_array_equal(built[:, :4], by_hand(points(values), level))


def test_merge_leaves_the_children_that_fill_no_block() -> None:
    parents, left = merge(points(np.arange(35.0)))
    assert parents.step.tolist() == [0, 16]
    assert parents.low.tolist() == [0, 16]
    assert parents.high.tolist() == [15, 31]
    assert left.step.tolist() == [32, 33, 34]


def test_a_block_is_nan_only_where_every_point_is() -> None:
    values = np.full(32, np.nan)
    values[3] = 5.0
    parents, _ = merge(points(values))
    np.testing.assert_array_equal(parents.low, [5.0, np.nan])
    np.testing.assert_array_equal(parents.high, [5.0, np.nan])


def test_the_mean_of_a_block_is_that_of_its_finite_values() -> None:
    values = np.arange(64.0)
    values[[5, 20, 21]] = np.nan, np.inf, -np.inf
    values[32:48] = np.nan
    parents, _ = merge(points(values))
    wanted = [np.mean([v for v in row if np.isfinite(v)] or np.nan) for row in np.split(values, 4)]
    np.testing.assert_allclose(parents.mean, wanted)
    grandparents, _ = merge(merge(points(np.arange(256.0)))[0])
    assert grandparents.mean.tolist() == [127.5]


def test_the_mean_of_the_largest_doubles_is_none_but_no_trouble() -> None:
    parents, _ = merge(points(np.full(16, np.finfo(float).max)))
    assert not np.isfinite(parents.mean[0])


def test_an_infinite_spike_is_kept() -> None:
    values = np.zeros(16)
    values[9] = np.inf
    parents, _ = merge(points(values))
    assert (parents.low[0], parents.high[0]) == (0.0, np.inf)


def test_no_points_complete_nothing() -> None:
    assert PyramidTail().extend(points(np.empty(0))) == []


def test_zigzag_draws_low_and_high_of_each_block_at_its_place() -> None:
    first, second = points(np.array([1.0]), 3), points(np.array([2.0]), 9)
    both = concatenate(first, second)._replace(high=np.array([5.0, 6.0]))
    steps, times, values = zigzag(both)
    assert steps.tolist() == [3, 3, 9, 9]
    assert times.tolist() == [30, 30, 90, 90]
    assert values.tolist() == [1, 5, 2, 6]
