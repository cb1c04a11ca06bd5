"""Where values stand on the axes of the parallel coordinates."""

from __future__ import annotations

import math

import pytest

from engine.sweeps.ranges import Choices, Interval, Range
from engine.sweeps.study import TrialResult
from engine.sweeps.sweep import Sweep
from gui.sweeps.axes import Axis, axes_of, short
from tests.support.made_sweeps import BASE


def sweep(ranges: dict[str, Range], metric: str = "") -> Sweep:
    return Sweep(base=BASE, ranges=ranges, own_settings=("width",), trials=4, metric=metric)


def test_a_range_goes_from_the_bottom_to_the_top() -> None:
    axis = Axis("dropout", "dropout", 0.0, 0.5)
    assert [axis.place(each) for each in (0, 0.25, 0.5)] == [0.0, 0.5, 1.0]
    assert [axis.place(each) for each in (-1, 2)] == [0.0, 1.0], "what was edited stays in sight"
    assert all(math.isnan(axis.place(each)) for each in (None, math.nan, math.inf, "text"))


def test_a_logarithmic_range_counts_orders_of_magnitude() -> None:
    axis = Axis("learning_rate", "Learning rate", 1e-4, 1.0, is_log=True)
    assert axis.place(1e-2) == pytest.approx(0.5)
    assert math.isnan(axis.place(0))
    assert [each.text for each in axis.ticks()] == ["0.0001", "0.001", "0.01", "0.1", "1"]


def test_a_list_has_its_values_at_equal_distances_and_numbers_ascend() -> None:
    ranges = {"width": Choices((64, 16, 32)), "optimizer": Choices(("sgd", "adamw"))}
    width, optimizer, _ = axes_of(sweep(ranges), ())
    assert width.place(16) < width.place(32) < width.place(64)
    assert width.place(32) == pytest.approx(0.5)
    assert [each.text for each in width.ticks()] == ["16", "32", "64"]
    assert [each.text for each in optimizer.ticks()] == ["sgd", "adamw"]
    assert math.isnan(optimizer.place("lion"))


def test_long_lists_leave_labels_out() -> None:
    axis, _ = axes_of(sweep({"seed": Choices(tuple(range(40)))}), ())
    assert len(axis.ticks()) <= 7


def results(*values: float | None) -> list[TrialResult]:
    return [TrialResult(place, "", "finished", {}, each) for place, each in enumerate(values)]


@pytest.mark.parametrize(
    ("values", "low", "high", "is_log"),
    [
        ((), 0.0, 1.0, False),
        ((None,), 0.0, 1.0, False),
        ((0.5,), 0.25, 0.75, False),
        ((1.0, 2.0, None, math.nan), 1.0, 2.0, False),
        ((0.1, 50.0), 0.1, 50.0, True),
        ((-1.0, 50.0), -1.0, 50.0, False),
        ((0.0, 0.0), -0.5, 0.5, False),
    ],
)
def test_the_axis_of_the_result_fits_the_results(
    values: tuple[float | None, ...], low: float, high: float, is_log: bool
) -> None:
    axis = axes_of(sweep({"width": Choices((16, 32))}), results(*values))[-1]
    assert (axis.low, axis.high, axis.is_log) == (low, high, is_log)
    assert axis.ticks()


def test_axes_have_the_names_of_the_form() -> None:
    ranges: dict[str, Range] = {"learning_rate": Interval(0.1, 1), "width": Choices((1, 2))}
    assert [each.title for each in axes_of(sweep(ranges), ())] == [
        "Learning rate",
        "width",
        "Val loss",
    ]
    assert axes_of(sweep(ranges, "validation/accuracy"), ())[-1].title == "Val accuracy"


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (0.012346, "0.01235"), (16, "16"), ("relu", "relu")]
)
def test_values_are_short(value: object, text: str) -> None:
    assert short(value) == text  # type: ignore[arg-type]
