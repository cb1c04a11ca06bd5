"""How a run trains: learning rate, gradient norm, devices, and the step times of each rank."""

from __future__ import annotations

import numpy as np
from PySide6.QtWidgets import QApplication

from gui.plots.panel.run_plots import RunPlots
from tests.gui.plots.conftest import paint, read_out, titles
from tests.gui.stored_points import stored_points

STEPS = np.arange(1.0, 101.0)
HALF = np.full(100, 0.5)
GIB = 2**30


def test_how_a_run_trains_is_below_how_well_it_learns(run_plots: RunPlots) -> None:
    for series in (
        *("train/loss", "validation/accuracy", "device/a/memory", "device/a/utilisation"),
        *("rank/0/memory_resident", "rank/0/compute_share", "train/gradient_norm"),
        *("train/learning_rate", "rank/x/data_share", "rank/0/whatever"),
    ):
        run_plots.add_points(series, stored_points(STEPS, HALF))
    QApplication.processEvents()
    shown = [plot for plot in run_plots.plots() if plot.isVisible()]
    rows = [[plot.title for plot in shown if plot.y() == y] for y in sorted({p.y() for p in shown})]
    machine = ["Device memory", "Device utilisation"]
    assert rows == [
        ["Loss", "Accuracy"],
        ["Step time", *machine],
        ["Learning rate", "Gradient norm", "Worker memory"],
    ]
    assert run_plots.plot("Loss").height() > run_plots.plot("Step time").height()
    run_plots.clear()
    assert titles(run_plots) == ["Loss", *machine]


def test_figures_of_ranks_are_in_the_unit_of_their_plot_and_said_with_their_rank(
    run_plots: RunPlots,
) -> None:
    run_plots.add_points("rank/0/data_share", stored_points(STEPS, HALF / 10))
    run_plots.add_points("rank/0/compute_share", stored_points(STEPS, HALF))
    run_plots.add_points("rank/1/compute_share", stored_points(STEPS, HALF / 2))
    run_plots.add_points("rank/0/memory_resident", stored_points(STEPS, HALF * 3 * GIB))
    run_plots.add_points("rank/1/memory_allocated", stored_points(STEPS, HALF * GIB))
    run_plots.resize(1000, 1400)
    paint(run_plots)
    assert run_plots.plot("Step time by rank").headline.text() == "38 % compute"
    assert run_plots.plot("Worker memory").headline.text() == "1.50 GiB peak"
    run_plots.clear()
    run_plots.add_points("rank/0/data_share", stored_points(STEPS, HALF / 10))
    run_plots.add_points("rank/0/compute_share", stored_points(STEPS, HALF))
    chip = run_plots.plot("Step time by rank").legend.chip
    assert chip("data 0").text() == "data"
    run_plots.add_points("rank/1/compute_share", stored_points(STEPS, HALF / 2))
    assert chip("data 0").text() == "r0 data"
    assert chip("compute 1").text() == "r1 compute"
    icons = [chip(name).icon().pixmap(8, 8).toImage() for name in ("compute 0", "compute 1")]
    assert icons[0] != icons[1]
    run_plots.clear()
    run_plots.add_points("rank/0/data_share", stored_points(STEPS, HALF))
    assert run_plots.plot("Step time by rank").legend.chip("data 0").text() == "data"


def test_many_ranks_do_not_hide_their_plot_behind_figures(run_plots: RunPlots) -> None:
    """What does not fit into the lines of the legend is in its menu, with the values."""
    for rank in range(30):
        run_plots.add_points(f"rank/{rank}/data_share", stored_points(STEPS, HALF))
    plot = run_plots.plot("Step time by rank")
    run_plots.resize(1000, 1400)
    paint(run_plots)
    plot.set_crosshair(50)
    assert plot.canvas.height() > 0.6 * plot.height()
    *chips, more = plot.legend.chips()
    assert all(plot.legend.rect().contains(chip.geometry()) for chip in (*chips, more))
    menu = more.menu()
    menu.aboutToShow.emit()
    entries = menu.actions()
    assert len(chips) + len(entries) == 30
    assert more.text() == f"+{len(entries)}"
    assert entries[-1].text() == "r29 data 50"
    entries[-1].trigger()
    assert not plot.curves["data 29"].visible


def test_curves_of_devices_and_the_learning_rate_are_never_smoothed(run_plots: RunPlots) -> None:
    run_plots.toolbar.set_smoothing(0.9)
    values = np.where(STEPS == 100, 38.0, 90.0)
    for figure in ("utilisation", "power", "temperature"):
        run_plots.add_points(f"device/a/{figure}", stored_points(STEPS, values))
    run_plots.resize(1000, 1400)
    paint(run_plots)
    for title in ("Device utilisation", "Device power", "Device temperature"):
        assert read_out(run_plots.plot(title)) == "a 38"
        assert not run_plots.plot(title).curves["a"].series.smoothing
    run_plots.toolbar.slider.setValue(999)
    run_plots.add_points("train/learning_rate", stored_points(STEPS, STEPS))
    plot = run_plots.plot("Learning rate")
    run_plots.resize(1000, 1400)
    paint(run_plots)
    plot.set_crosshair(100)
    assert read_out(plot) == "train 100"
