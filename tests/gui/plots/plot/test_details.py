"""The detail plots: learning rate, gradient norm, and the step times of each rank."""

from __future__ import annotations

import numpy as np
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from gui.plots.panel.run_plots import RunPlots
from tests.gui.plots.conftest import paint, titles
from tests.gui.stored_points import stored_points

STEPS = np.arange(1.0, 101.0)
HALF = np.full(100, 0.5)
GIB = 2**30


def test_the_step_time_plot_is_a_small_one_below(run_plots: RunPlots) -> None:
    for series in (
        "rank/0/memory_resident",
        "rank/0/compute_share",
        "train/gradient_norm",
        "train/learning_rate",
        "rank/x/data_share",
        "rank/0/whatever",
    ):
        run_plots.add_points(series, stored_points(STEPS, HALF))
    main, details = titles(run_plots)[:3], titles(run_plots)[3:]
    assert main == ["Loss", "Device utilisation", "Device memory"]
    assert details == ["Learning rate", "Gradient norm", "Step time", "Worker memory"]
    QApplication.processEvents()
    lowest = max(run_plots.plot(title).geometry().bottom() for title in main)
    assert all(run_plots.plot(title).y() > lowest for title in details)
    assert run_plots.plot("Loss").height() > run_plots.plot("Step time").height()
    run_plots.clear()
    assert titles(run_plots) == main


def test_in_a_low_window_the_details_only_peek_out(run_plots: RunPlots, qtbot: QtBot) -> None:
    run_plots.resize(1000, 440)
    QApplication.processEvents()
    before = run_plots.plot("Loss").height()
    run_plots.add_points("train/learning_rate", stored_points(STEPS, HALF))
    qtbot.waitUntil(lambda: 150 < run_plots.plot("Loss").height() < before)
    assert before - run_plots.plot("Loss").height() < 50
    top = run_plots.plot("Learning rate").visibleRegion().boundingRect()
    assert 0 < top.height() < 60


def test_the_legend_says_which_rank_as_soon_as_there_are_several(run_plots: RunPlots) -> None:
    run_plots.add_points("rank/0/data_share", stored_points(STEPS, HALF / 10))
    run_plots.add_points("rank/0/compute_share", stored_points(STEPS, HALF))
    chip = run_plots.plot("Step time").legend.chip
    assert chip("data 0").text() == "data"
    run_plots.add_points("rank/1/compute_share", stored_points(STEPS, HALF / 2))
    assert chip("data 0").text() == "r0 data"
    assert chip("compute 1").text() == "r1 compute"
    icons = [chip(name).icon().pixmap(8, 8).toImage() for name in ("compute 0", "compute 1")]
    assert icons[0] != icons[1]
    run_plots.clear()
    run_plots.add_points("rank/0/data_share", stored_points(STEPS, HALF))
    assert run_plots.plot("Step time").legend.chip("data 0").text() == "data"


def test_figures_of_ranks_are_in_the_unit_of_their_plot(run_plots: RunPlots) -> None:
    run_plots.add_points("rank/0/data_share", stored_points(STEPS, HALF / 10))
    run_plots.add_points("rank/0/compute_share", stored_points(STEPS, HALF))
    run_plots.add_points("rank/1/compute_share", stored_points(STEPS, HALF / 2))
    run_plots.add_points("rank/0/memory_resident", stored_points(STEPS, HALF * 3 * GIB))
    run_plots.add_points("rank/1/memory_allocated", stored_points(STEPS, HALF * GIB))
    run_plots.resize(1000, 1400)
    paint(run_plots)
    assert run_plots.plot("Step time").headline.text() == "38 % compute"
    assert run_plots.plot("Worker memory").headline.text() == "1.50 GiB peak"


def test_the_learning_rate_is_drawn_as_it_is(run_plots: RunPlots) -> None:
    run_plots.toolbar.slider.setValue(999)
    run_plots.add_points("train/learning_rate", stored_points(STEPS, STEPS))
    plot = run_plots.plot("Learning rate")
    run_plots.resize(1000, 1400)
    paint(run_plots)
    plot.set_crosshair(100)
    assert "100" in plot.canvas.crosshair.box.text()


def test_many_ranks_do_not_hide_their_plot_behind_figures(run_plots: RunPlots) -> None:
    for rank in range(12):
        run_plots.add_points(f"rank/{rank}/data_share", stored_points(STEPS, HALF))
    plot = run_plots.plot("Step time")
    run_plots.resize(1000, 1400)
    paint(run_plots)
    plot.set_crosshair(50)
    text = plot.canvas.crosshair.box.text()
    assert "r8 data" in text
    assert "r9 data" not in text
    assert "and 3 more" in text
