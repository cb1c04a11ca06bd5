"""All plots: who gets which series, what each says of it, and where they stand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from PySide6.QtCore import QSize
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.messages.events import TrainingStarted
from engine.runs.store_reader import StoredEvent
from gui.plots.panel.grid_layout import rows
from gui.plots.panel.run_plots import PlotGrid
from gui.style.theme import DARK, LIGHT
from tests.gui.plots.conftest import Inked, paint, titles
from tests.gui.points import points_of

STEPS = np.arange(1.0, 101.0)
HALF = np.full(100, 0.5)
GIB = 2**30


def test_every_series_finds_its_plot(grid: PlotGrid) -> None:
    assert titles(grid) == ["Loss", "Device utilisation", "Device memory"]
    for series in (
        "train/loss",
        "validation/loss",
        "validation/accuracy",
        "validation/top_5",
        "train/grad_norm",
        "device/GPU-a/utilisation",
        "device/GPU-a/memory",
        "train/samples_per_second",
        "device/GPU-a/temperature",
        "device/GPU-a/power",
        "device/GPU-a/clock",
        "whatever",
    ):
        grid.add_points(series, points_of(STEPS, HALF))
    assert titles(grid) == [
        "Loss",
        "Accuracy",
        "Grad norm",
        "Top 5",
        "Device utilisation",
        "Device memory",
        "Device temperature",
        "Device power",
    ]
    assert grid.plot("Loss").curve_names() == ["train", "val"]
    assert grid.plot("Device memory").curve_names() == ["GPU-a"]


def test_metrics_whose_names_differ_have_plots_of_their_own(grid: PlotGrid) -> None:
    names = ("top_5", "top/5", "top 5", "IoU", "Iou")
    for number, name in enumerate(names):
        grid.add_points(f"validation/{name}", points_of(STEPS, HALF * number))
    found = {plot.title: plot.curves["val"].series.last for plot in grid.plots()[1:6]}
    assert found == {"Top 5": 0.0, "Top/5": 0.5, "“top 5”": 1.0, "IoU": 1.5, "Iou": 2.0}


def test_training_and_validation_share_the_plot_of_a_metric(grid: PlotGrid) -> None:
    grid.add_points("train/f1", points_of(STEPS, HALF))
    grid.add_points("validation/f1", points_of(STEPS, HALF))
    assert titles(grid).count("F1") == 1
    assert grid.plot("F1").curve_names() == ["train", "val"]


def test_the_throughput_has_a_plot_where_it_is_asked_for(qtbot: QtBot) -> None:
    grid = PlotGrid(DARK, throughput=True)
    qtbot.addWidget(grid)
    grid.add_points("train/samples_per_second", points_of(STEPS, HALF))
    assert "Throughput" in titles(grid)


def test_figures_are_in_the_unit_of_their_plot(grid: PlotGrid) -> None:
    grid.add_points("validation/accuracy", points_of(STEPS, HALF))
    grid.add_points("device/a/memory", points_of(STEPS, HALF * 3 * GIB))
    grid.add_points("device/b/memory", points_of(STEPS, HALF * GIB))
    grid.add_points("device/b/memory", points_of(STEPS[-1:] + 1, HALF[:1]))
    grid.add_points("device/a/utilisation", points_of(STEPS, HALF * 100))
    paint(grid)
    assert grid.plot("Accuracy").headline.text() == "50.0 %"
    assert grid.plot("Device memory").headline.text() == "1.5 GiB peak"
    assert grid.plot("Device utilisation").headline.text() == "50 %"
    grid.add_points("device/b/utilisation", points_of(STEPS, HALF * 20))
    grid.add_points("device/c/utilisation", points_of(STEPS, HALF * np.nan))
    paint(grid)
    assert grid.plot("Device utilisation").headline.text() == "30 % mean"
    grid.add_points("device/a/temperature", points_of(STEPS, HALF * 160))
    grid.add_points("device/b/temperature", points_of(STEPS, HALF * 120))
    for device, watts in (("a", 600), ("b", 500)):
        grid.add_points(f"device/{device}/power", points_of(STEPS, HALF * 2 * watts))
    grid.resize(1000, 1600)
    paint(grid)
    assert grid.plot("Device temperature").headline.text() == "80 °C peak"
    assert grid.plot("Device power").headline.text() == "550 W mean"


def test_replaced_points_are_the_only_ones(grid: PlotGrid) -> None:
    grid.add_points("device/a/memory", points_of(STEPS, HALF * 8 * GIB))
    grid.set_points("device/a/memory", points_of(STEPS[:5], HALF[:5] * 2 * GIB))
    paint(grid)
    assert grid.plot("Device memory").x_range() == (1, 5)
    assert grid.plot("Device memory").headline.text() == "1.0 GiB peak"


def test_the_best_validation_gets_a_star(grid: PlotGrid) -> None:
    def star(title: str) -> tuple[float, float]:
        found = grid.plot(title).curves["val"].star()
        assert found is not None
        return found[:2]

    grid.add_points("validation/accuracy", points_of(STEPS[:3], np.array([0.5, 0.75, np.nan])))
    grid.add_points("validation/accuracy", points_of(STEPS[3:5], np.array([0.6, 0.75])))
    grid.add_points("validation/loss", points_of(STEPS[:3], np.array([0.5, 0.25, 0.75])))
    assert star("Accuracy") == (2, 75)
    assert star("Loss") == (2, 0.25)
    grid.set_points("validation/accuracy", points_of(STEPS[:1], np.array([0.5])))
    assert star("Accuracy") == (1, 50)
    grid.add_points("validation/top_5", points_of(STEPS[:3], np.array([0.5, 0.25, 0.75])))
    grid.add_points("validation/top_5_error", points_of(STEPS[:3], np.array([0.5, 0.25, 0.75])))
    assert star("Top 5") == (3, 0.75)
    assert star("Top 5 error") == (2, 0.25)
    assert grid.plot("Top 5").curves.stars(DARK)[0].colour == DARK.warn


def test_the_run_says_which_way_its_metrics_are_better(grid: PlotGrid) -> None:
    """Its points may come before the event that says so, and after it."""
    points = points_of(STEPS[:3], np.array([0.5, 0.25, 0.75]))
    grid.add_points("validation/novelty", points)
    grid.add_points("validation/loss", points)
    directions = {"novelty": "min", "loss": "max", "mae": "max"}
    started = TrainingStarted(0, 1, 3, 1, 1, metric_directions=directions)
    grid.take_events([StoredEvent(1, 0.0, started)])
    grid.add_points("validation/mae", points)
    found = {kind: grid.plot(kind).curves["val"].star() for kind in ("Novelty", "Loss", "Mae")}
    assert {kind: star and star[0] for kind, star in found.items()} == {
        "Novelty": 2,
        "Loss": 3,
        "Mae": 3,
    }


@pytest.mark.parametrize("values", [[], [math.nan]])
def test_the_star_goes_with_the_points_it_stood_for(
    grid: PlotGrid, inked: Inked, values: list[float]
) -> None:
    canvas = grid.plot("Loss").canvas
    grid.add_points("train/loss", points_of(STEPS, STEPS / 100))  # what is in sight stays
    grid.add_points("validation/loss", points_of(STEPS[:3], np.array([0.5, 0.25, 0.75])))
    paint(grid)
    assert inked(canvas, DARK.warn) > 5
    grid.set_points("validation/loss", points_of(STEPS[: len(values)], np.array(values)))
    paint(grid)
    assert inked(canvas, DARK.warn) == 0
    grid.add_points("validation/loss", points_of(STEPS[1:2], np.array([0.8])))
    paint(grid)
    assert inked(canvas, DARK.warn) > 5


def test_devices_have_their_names_and_the_colours_of_their_order(grid: PlotGrid) -> None:
    figures = {"utilisation", "memory", "temperature", "power"}
    for figure in figures:
        grid.add_points(f"device/b/{figure}", points_of(STEPS, HALF))
    assert grid.plot("Device utilisation").legend.chip("b").text() == "b"
    grid.set_device_labels({"cpu": "CPU", "a": "GPU 0", "b": "GPU 1"})
    for figure in figures:
        grid.add_points(f"device/a/{figure}", points_of(STEPS, HALF))
        chip = grid.plot(f"Device {figure}").legend.chip
        assert (chip("a").text(), chip("b").text()) == ("GPU 0", "GPU 1")
        dot = chip("b").icon().pixmap(QSize(8, 8), QIcon.Mode.Normal, QIcon.State.On)
        middle = dot.toImage().pixelColor(4, 4)
        assert middle.name() == DARK.cycle[2]


def test_devices_that_share_a_colour_are_told_apart_by_dashes(grid: PlotGrid) -> None:
    names = [f"gpu{number}" for number in range(16)]
    grid.add_points("device/gpu0/power", points_of(STEPS, HALF))
    grid.set_device_labels(dict(zip(names, names, strict=True)))
    for name in names[1:]:
        grid.add_points(f"device/{name}/power", points_of(STEPS, HALF))
    curves = {curve.label: curve for curve in grid.plot("Device power").curves.curves()}
    looks = {(DARK.curve(curve.colour_index), curve.dash) for curve in curves.values()}
    assert len(looks) == 16
    assert [name for name in names if curves[name].dash.pattern] == names[8:]
    grid.set_device_labels({"gpu8": "GPU 8"})
    assert not curves["gpu8"].dash.pattern


def test_the_curves_of_sixteen_ranks_are_told_apart(grid: PlotGrid) -> None:
    shares = ("data_share", "compute_share", "communication_share")
    for rank in range(16):
        for share in shares:
            grid.add_points(f"rank/{rank}/{share}", points_of(STEPS, HALF))
    plot = grid.plot("Step time")
    curves = plot.curves.curves()
    assert len({(DARK.curve(curve.colour_index), curve.dash) for curve in curves}) == 48
    for curve in curves:
        assert curve._thick.dashPattern() == list(curve.dash.pattern)
    mode, on, chips = QIcon.Mode.Normal, QIcon.State.On, plot.legend.chips()
    icons = [chip.icon().pixmap(chip.iconSize(), mode, on).toImage() for chip in chips]
    assert all(one != other for i, one in enumerate(icons) for other in icons[:i])
    plot.refresh()
    plot.set_crosshair(50)
    assert "– – " in plot.canvas.crosshair.box.text().replace("</span>", "")


def test_a_gap_in_a_devices_curve_is_not_drawn_and_not_zero(grid: PlotGrid) -> None:
    values = np.where((STEPS > 40) & (STEPS < 60), np.nan, 80.0)
    grid.add_points("device/a/temperature", points_of(STEPS, values))
    grid.set_device_labels({"a": "GPU 0"})
    plot = grid.plot("Device temperature")
    grid.resize(1000, 1400)
    paint(grid)
    plot.set_crosshair(30)
    assert "80 °C" in plot.canvas.crosshair.box.text()
    plot.set_crosshair(50)
    assert "80" not in plot.canvas.crosshair.box.text()
    assert "0 °C" not in plot.canvas.crosshair.box.text()


def test_another_run_begins_with_empty_plots(grid: PlotGrid) -> None:
    grid.add_points("train/loss", points_of(STEPS, HALF))
    grid.add_points("validation/accuracy", points_of(STEPS, HALF))
    grid.add_points("device/a/memory", points_of(STEPS, HALF * 8 * GIB))
    grid.clear()
    assert titles(grid) == ["Loss", "Device utilisation", "Device memory"]
    assert all(plot.x_range() is None for plot in grid.plots())
    grid.add_points("device/a/memory", points_of(STEPS, HALF * 2 * GIB))
    paint(grid)
    assert grid.plot("Device memory").headline.text() == "1.0 GiB peak"


@pytest.mark.parametrize(
    ("count", "columns", "expected"),
    [
        (3, 2, [2, 1]),
        (4, 2, [2, 2]),
        (3, 3, [3]),
        (4, 3, [2, 2]),
        (5, 3, [3, 2]),
        (7, 3, [3, 2, 2]),
    ],
)
def test_no_plot_is_left_alone_in_a_wide_row(
    grid: PlotGrid, count: int, columns: int, expected: list[int]
) -> None:
    for number in range(count - 3):
        grid.add_points(f"train/metric_{number}", points_of(STEPS, HALF))
    found = rows(grid.plots(), columns)
    assert [len(row) for row in found] == expected
    assert [plot for row in found for plot in row] == grid.plots()


def test_a_wide_window_has_three_columns(grid: PlotGrid) -> None:
    def tops() -> list[int]:
        QApplication.processEvents()
        return [plot.y() for plot in grid.plots()]

    first, second, third = tops()
    assert first == second < third
    grid.resize(1920, 700)
    assert len(set(tops())) == 1
    grid.resize(1919, 700)
    assert len(set(tops())) == 2


def test_another_theme_reaches_every_plot(grid: PlotGrid) -> None:
    grid.add_points("train/loss", points_of(STEPS, HALF))
    grid.set_theme(LIGHT)
    paint(grid)
    image = grid.plot("Loss").canvas.grab().toImage()
    assert image.pixelColor(image.width() // 2, 3).name() == LIGHT.card


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_steps_whose_loss_is_no_number_are_marked(
    value: float, grid: PlotGrid, inked: Inked
) -> None:
    plot = grid.plot("Loss")
    values = np.ones(100)
    grid.add_points("train/loss", points_of(np.arange(100.0), values))
    grid.add_points("device/cpu/memory", points_of(np.arange(100.0), np.full(100, value)))
    paint(grid)
    assert inked(plot.canvas, DARK.bad) == 0
    values[50] = value
    grid.set_points("train/loss", points_of(np.arange(100.0), values))
    paint(grid)
    assert inked(plot.canvas, DARK.bad) > 5
    assert inked(grid.plot("Device memory").canvas, DARK.bad) == 0, "nothing was measured there"
