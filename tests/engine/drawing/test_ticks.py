"""Ticks stand at round numbers; their labels are short and different."""

from __future__ import annotations

import math
import random

import pytest

from engine.drawing import ticks
from engine.drawing.ticks import Labels


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([9876551, 9876552], ["9,876,551", "9,876,552"]),
        ([0.6931, 0.69315, 0.6932], ["0.6931", "0.69315", "0.6932"]),
        ([1e-5, 1.00001e-5], ["1e-5", "1.00001e-5"]),
        ([1e12, 1.0001e12], ["1e12", "1.0001e12"]),
        ([0, 0.25, 0.5], ["0", "0.25", "0.5"]),
        ([0, 5e5, 1e6], ["0", "500k", "1M"]),
        ([-2e-5, 0, 2e-5], ["-2e-5", "0", "2e-5"]),
        ([-0.1, 0.1 * 3 - 0.3, 0.1], ["-0.1", "0", "0.1"]),
        ([1e-5, 0.2, 1, 2, 5, 2e5, 1e6], ["1e-5", "0.2", "1", "2", "5", "200k", "1M"]),
        ([1e-242, 1e-121, 1], ["1e-242", "1e-121", "1"]),
        ([7], ["7"]),
        ([], []),
    ],
)
def test_labels_have_enough_digits_to_differ(values: list[float], labels: list[str]) -> None:
    assert ticks.labels(values) == Labels(labels)


@pytest.mark.parametrize(
    ("values", "offset", "labels"),
    [
        ([0.003, 0.00300000001, 0.00300000002], "0.003", ["0", "+1e-11", "+2e-11"]),
        ([0.69315, 0.693151, 0.693152], "0.69315", ["0", "+1e-6", "+2e-6"]),
        ([-5.000002, -5.000001, -5], "-5.00001", ["+8e-6", "+9e-6", "+1e-5"]),
        ([9876552, 9876554], "9,876,550", ["+2", "+4"]),
        ([0, 5e-13, 1e-12, 1.5e-12], "", ["0", "5e-13", "1e-12", "1.5e-12"]),
        ([-1e300, 0, 1e300], "", ["-1e300", "0", "1e300"]),
    ],
)
def test_nearly_equal_values_are_written_as_differences(
    values: list[float], offset: str, labels: list[str]
) -> None:
    assert ticks.labels(values, may_have_offset=True) == Labels(labels, offset)


def test_every_range_has_a_few_short_and_different_labels() -> None:
    numbers = random.Random(18)
    for place in range(2000):
        low = numbers.choice((1, -1)) * 10 ** numbers.uniform(-290, 290)
        width = abs(low) * 10 ** numbers.uniform(-8, 3)
        first, last = (
            (low, low + width) if place % 2 else (math.log10(width), math.log10(width) + 2)
        )
        choose = ticks.linear if place % 2 else ticks.logarithmic
        found = choose(first, last, 6)
        values = found if place % 2 else [10.0**each for each in found]
        labels = ticks.labels(values, may_have_offset=True).texts
        assert 2 <= len(found) <= 6, (low, width)
        assert len(set(labels)) == len(labels), (low, width, labels)
        assert max(map(len, labels)) <= 12, (low, width, labels)


def test_ticks_are_exact_multiples() -> None:
    assert ticks.linear(0, 0.7, 8) == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    assert ticks.linear(3e-310, 5e-310, 4) == [3e-310, 4e-310, 5e-310]
    assert ticks.linear(1, 1, 5) == ticks.linear(-math.inf, 0, 5) == []


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (-5, 1, [1e-4, 1e-2, 1]),
        (-2.1, 0.3, [0.01, 0.03, 0.1, 0.3, 1]),
        (0, 1.6, [1, 2, 5, 10, 20]),
        (-0.2, 0.2, [0.8, 1, 1.2, 1.4]),
        (-300, 300, [1e-200, 1, 1e200]),
    ],
)
def test_a_logarithmic_axis_has_no_more_ticks_than_fit(
    low: float, high: float, expected: list[float]
) -> None:
    assert [10**tick for tick in ticks.logarithmic(low, high, 5)] == pytest.approx(expected)


@pytest.mark.parametrize(
    "reach", [(0.0, 999_999_995_904.0), (-1e12, 1e12), (1e12, 2e12), (-1e300, 1e300)]
)
def test_a_logarithmic_axis_with_the_range_of_values_ends(reach: tuple[float, float]) -> None:
    """So it is painted once when it becomes logarithmic."""
    found = ticks.logarithmic(*reach, 8)
    assert len(found) <= 10
    assert all(-323 <= position <= 308 for position in found)


def test_ticks_are_counted_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[float] = []
    whole = ticks._multiple
    monkeypatch.setattr(ticks, "_multiple", lambda *parts: made.append(whole(*parts)) or made[-1])
    assert ticks.linear(0.0, 1.0, 5) == made == [0.0, 0.5, 1.0]
