"""The plots of details: learning rate, gradient norm, and what each rank tells of its steps."""

from __future__ import annotations

import numpy as np
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from gui.plots.panel.run_plots import PlotGrid
from tests.gui.plots.conftest import paint, titles
from tests.gui.points import points_of

STEPS = np.arange(1.0, 101.0)
HALF = np.full(100, 0.5)
GIB = 2**30


def test_what_a_step_is_made_of_stands_below_and_smaller(grid: PlotGrid) -> None:
    for series in (
        "rank/0/memory_resident",
        "rank/0/compute_share",
        "train/gradient_norm",
        "train/learning_rate",
        "rank/x/data_share",
        "rank/0/whatever",
    ):
        grid.add_points(series, points_of(STEPS, HALF))
    main, details = titles(grid)[:3], titles(grid)[3:]
    assert main == ["Loss", "Device utilisation", "Device memory"]
    assert details == ["Learning rate", "Gradient norm", "Step time", "Worker memory"]
    QApplication.processEvents()
    lowest = max(grid.plot(title).geometry().bottom() for title in main)
    assert all(grid.plot(title).y() > lowest for title in details)
    assert grid.plot("Loss").height() > grid.plot("Step time").height()
    grid.clear()
    assert titles(grid) == main


def test_in_a_low_window_the_details_only_peek_out(grid: PlotGrid, qtbot: QtBot) -> None:
    grid.resize(1000, 440)
    QApplication.processEvents()
    before = grid.plot("Loss").height()
    grid.add_points("train/learning_rate", points_of(STEPS, HALF))
    qtbot.waitUntil(lambda: 150 < grid.plot("Loss").height() < before)
    assert before - grid.plot("Loss").height() < 50
    top = grid.plot("Learning rate").visibleRegion().boundingRect()
    assert 0 < top.height() < 60


def test_the_legend_says_which_rank_as_soon_as_there_are_several(grid: PlotGrid) -> None:
    grid.add_points("rank/0/data_share", points_of(STEPS, HALF / 10))
    grid.add_points("rank/0/compute_share", points_of(STEPS, HALF))
    chip = grid.plot("Step time").legend.chip
    assert chip("data 0").text() == "data"
    grid.add_points("rank/1/compute_share", points_of(STEPS, HALF / 2))
    assert chip("data 0").text() == "r0 data"
    assert chip("compute 1").text() == "r1 compute"
    icons = [chip(name).icon().pixmap(8, 8).toImage() for name in ("compute 0", "compute 1")]
    assert icons[0] != icons[1]
    grid.clear()
    grid.add_points("rank/0/data_share", points_of(STEPS, HALF))
    assert grid.plot("Step time").legend.chip("data 0").text() == "data"


def test_figures_of_ranks_are_in_the_unit_of_their_plot(grid: PlotGrid) -> None:
    grid.add_points("rank/0/data_share", points_of(STEPS, HALF / 10))
    grid.add_points("rank/0/compute_share", points_of(STEPS, HALF))
    grid.add_points("rank/1/compute_share", points_of(STEPS, HALF / 2))
    grid.add_points("rank/0/memory_resident", points_of(STEPS, HALF * 3 * GIB))
    grid.add_points("rank/1/memory_allocated", points_of(STEPS, HALF * GIB))
    grid.resize(1000, 1400)
    paint(grid)
    assert grid.plot("Step time").headline.text() == "38 % compute"
    assert grid.plot("Worker memory").headline.text() == "1.50 GiB peak"


def test_the_learning_rate_is_drawn_as_it_is(grid: PlotGrid) -> None:
    grid.bar.slider.setValue(999)
    grid.add_points("train/learning_rate", points_of(STEPS, STEPS))
    plot = grid.plot("Learning rate")
    grid.resize(1000, 1400)
    paint(grid)
    plot.set_crosshair(100)
    assert "100" in plot.canvas.crosshair.box.text()


def test_many_ranks_do_not_hide_their_plot_behind_figures(grid: PlotGrid) -> None:
    for rank in range(12):
        grid.add_points(f"rank/{rank}/data_share", points_of(STEPS, HALF))
    plot = grid.plot("Step time")
    grid.resize(1000, 1400)
    paint(grid)
    plot.set_crosshair(50)
    text = plot.canvas.crosshair.box.text()
    assert "r8 data" in text
    assert "r9 data" not in text
    assert "and 3 more" in text
