"""The stacked step time: edges of the parts, milliseconds, several ranks, blocks and rewinds."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from engine.runs.run_state import STEP_SECONDS
from engine.runs.store.downsampling import BlockStatistics
from gui.compare.comparison_plots import comparison_style
from gui.plots.data.step_breakdown import PARTS, Parts, StepBreakdown
from gui.plots.export.figure_of import figure_of
from gui.plots.panel.run_plots import RunPlots
from tests.gui.plots.conftest import paint, read_out, titles
from tests.gui.stored_points import stored_points

STEPS = np.arange(1.0, 5.0)
SHARES = dict(zip(PARTS, (0.5, 0.2, 0.3), strict=True))


def feed(
    made: StepBreakdown, rank: int, shares: dict[str, float], *, replaces: bool = False
) -> None:
    for part, share in shares.items():
        made.add(rank, part, stored_points(STEPS, np.full(4, share)), replace=replaces)


def edges(parts: Parts | None) -> dict[str, float]:
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
    assert list(parts.points[PARTS[0]].step) == list(STEPS + 0.5), "the steps of the lowest rank"


def test_a_part_that_nothing_measures_is_left_out_until_it_is_measured() -> None:
    made = StepBreakdown()
    feed(made, 0, SHARES | {"communication_share": 0.0, "data_share": 0.5})
    assert list(edges(made.take())) == ["compute_share", "data_share"]
    feed(made, 0, SHARES)
    later = made.take()
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
    assert not new.replaces
    assert len(new.points["compute_share"].step) == 4
    feed(made, 0, SHARES, replaces=True)
    again = made.take()
    assert again.replaces
    assert len(again.points["compute_share"].step) == 4


def test_with_the_step_time_the_parts_are_in_milliseconds_and_it_is_their_upper_edge() -> None:
    made = StepBreakdown()
    feed(made, 0, SHARES)
    assert edges(made.take())["data_share"] == pytest.approx(100), "percent of an older version"
    made.add_step_seconds(stored_points(STEPS[1:], np.array([0.04, 0.06, 0.05])), replace=False)
    timed = made.take()
    assert timed.replaces
    assert list(timed.points["data_share"].value) == pytest.approx([40, 60, 50])
    assert list(timed.points["data_share"].step) == list(STEPS[1:]), "none before the first one"
    assert edges(timed) == pytest.approx(dict(zip(PARTS, (25, 35, 50), strict=True)))
    assert made.series == [STEP_SECONDS, *(f"rank/0/{part}" for part in PARTS)]


def test_a_step_time_waits_for_its_parts() -> None:
    made = StepBreakdown()
    feed(made, 0, SHARES)
    made.add_step_seconds(stored_points(np.arange(1.0, 7.0), np.full(6, 0.1)), replace=False)
    first = made.take()
    assert list(first.points["data_share"].step) == list(STEPS)
    for part, share in SHARES.items():
        made.add(0, part, stored_points(np.array([5.0, 6.0]), np.full(2, share)), replace=False)
    later = made.take()
    assert not later.replaces
    assert list(later.points["data_share"].step) == [5, 6]


def test_a_step_time_without_parts_is_one_area_until_there_are_parts() -> None:
    made = StepBreakdown()
    made.add_step_seconds(stored_points(STEPS, np.full(4, 0.1)), replace=False)
    assert edges(made.take()) == pytest.approx({STEP_SECONDS: 100})
    feed(made, 0, SHARES)
    parts = made.take()
    assert parts.replaces
    assert list(parts.points) == list(PARTS)


def test_the_legend_says_the_parts(run_plots: RunPlots) -> None:
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
    for rank in (0, 1):
        run_plots.add_points(f"rank/{rank}/data_share", stored_points(STEPS + 4, np.full(4, 0.3)))
    assert run_plots.plot("Step time by rank").isVisible()


def test_the_plot_turns_to_milliseconds_when_the_step_time_comes(run_plots: RunPlots) -> None:
    for part, share in SHARES.items():
        run_plots.add_points(f"rank/0/{part}", stored_points(STEPS, np.full(4, share)))
    run_plots.add_points("train/loss", stored_points(STEPS, np.ones(4)))
    run_plots.resize(1000, 900)
    paint(run_plots)
    assert titles(run_plots)[:2] == ["Loss", "Step time"]
    run_plots.add_points(STEP_SECONDS, stored_points(STEPS, np.full(4, 0.05)))
    paint(run_plots)
    assert titles(run_plots).count("Step time") == 1
    plot = run_plots.plot("Step time")
    assert read_out(plot) == "compute 25, comm. 10, data 15"
    assert plot.headline.text() == "50 ms"
    lines = figure_of(plot, "").lines
    assert [line.ys[0] for line in lines] == pytest.approx([50, 35, 25]), (
        "the lowest is painted last"
    )
    assert all(line.base and set(line.lower) == {0} for line in lines), "areas in a picture too"
    run_plots.clear()
    run_plots.add_points(STEP_SECONDS, stored_points(STEPS, np.full(4, 0.002)))
    paint(run_plots)
    plot = run_plots.plot("Step time")
    assert read_out(plot) == "step 2", "of TensorFlow, or of a script"
    assert not plot.headline.text(), "the legend has said it"


def test_the_comparison_shows_the_step_time_of_each_run_as_a_line() -> None:
    style = comparison_style(STEP_SECONDS)
    assert (style.plot.title, style.plot.unit, style.factor) == ("Step time", "ms", 1000.0)
    assert not style.plot.is_stacked
