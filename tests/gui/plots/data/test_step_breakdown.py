"""The stacked step time: edges of the parts, several ranks, blocks and rewinds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.runs.store.downsampling import BlockStatistics
from gui.plots.data.step_breakdown import PARTS, Parts, StepBreakdown
from gui.plots.panel.run_plots import RunPlots
from tests.gui.plots.conftest import Inked, paint, read_out
from tests.gui.stored_points import stored_points

STEPS = np.arange(1.0, 5.0)
SHARES = dict(zip(PARTS, (0.5, 0.2, 0.3), strict=True))


def feed(
    made: StepBreakdown, rank: int, shares: dict[str, float], *, replaces: bool = False
) -> None:
    for part, share in shares.items():
        made.add(rank, part, stored_points(STEPS, np.full(4, share)), replace=replaces)


def edges(parts: Parts | None) -> dict[str, float]:
    assert parts is not None
    return {part: float(points.value[-1]) for part, points in parts.points.items()}


def test_each_part_stands_on_those_below_it() -> None:
    made = StepBreakdown()
    feed(made, 0, SHARES)
    assert edges(made.take()) == pytest.approx(dict(zip(PARTS, (50, 70, 100), strict=True)))
    assert made.take() is None


def test_the_parts_are_the_means_of_the_ranks_which_report_at_different_steps() -> None:
    made = StepBreakdown()
    feed(made, 1, SHARES)
    for part, share in zip(PARTS, (0.9, 0.0, 0.1), strict=True):
        made.add(0, part, stored_points(STEPS + 0.5, np.full(4, share)), replace=False)
    parts = made.take()
    assert edges(parts) == pytest.approx(dict(zip(PARTS, (70, 80, 100), strict=True)))
    assert parts is not None
    assert list(parts.points[PARTS[0]].step) == list(STEPS + 0.5), "the steps of the lowest rank"


def test_a_part_that_nothing_measures_is_left_out_until_it_is_measured() -> None:
    made = StepBreakdown()
    feed(made, 0, SHARES | {"communication_share": 0.0, "data_share": 0.5})
    assert list(edges(made.take())) == ["compute_share", "data_share"]
    feed(made, 0, SHARES)
    later = made.take()
    assert later is not None
    assert later.replaces
    assert list(later.points) == list(PARTS)
    assert len(later.points["data_share"].step) == 8


def test_points_of_blocks_count_with_their_means_and_only_new_points_are_given() -> None:
    made = StepBreakdown()
    for part, share in SHARES.items():
        blocks = BlockStatistics(np.full(4, share), np.full(4, 8.0))
        points = stored_points(STEPS, np.array([0.0, 1.0, 0.0, 1.0]))
        made.add(0, part, replace(points, statistics=blocks), replace=False)
    assert edges(made.take())["compute_share"] == pytest.approx(50)
    feed(made, 0, SHARES)
    new = made.take()
    assert new is not None
    assert not new.replaces
    assert len(new.points["compute_share"].step) == 4
    feed(made, 0, SHARES, replaces=True)
    again = made.take()
    assert again is not None
    assert again.replaces
    assert len(again.points["compute_share"].step) == 4


def test_the_legend_says_the_parts_and_the_areas_are_filled(
    run_plots: RunPlots, inked: Inked
) -> None:
    for part, share in SHARES.items():
        run_plots.add_points(f"rank/0/{part}", stored_points(STEPS, np.full(4, share)))
    run_plots.resize(1000, 900)
    paint(run_plots)
    plot = run_plots.plot("Step time")
    assert read_out(plot) == "compute 50, comm. 20, data 30"
    assert not run_plots.plot("Step time by rank").isVisible(), "there is one rank"
    plot.set_crosshair(2)
    assert read_out(plot) == "compute 50, comm. 20, data 30"
    assert [round(dot[1]) for dot in plot.canvas.crosshair.dots] == [50, 70, 100]
    plot.set_crosshair(None)
    fills = [curve._fill.color().name() for curve in plot.curves.curves() if curve._fill]
    areas = [inked(plot.canvas, fill) for fill in fills]
    assert areas[0] > areas[2] > areas[1] > 100
    for rank in (0, 1):
        run_plots.add_points(f"rank/{rank}/data_share", stored_points(STEPS + 4, np.full(4, 0.3)))
    assert run_plots.plot("Step time by rank").isVisible()
