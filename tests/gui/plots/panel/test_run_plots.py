"""All plots of a run: which series each shows, its headline, and its position."""

from __future__ import annotations

import math

import numpy as np
import pytest
from PySide6.QtCore import QSize
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QApplication

from engine.messages.events import TrainingStarted
from engine.runs.store_reader import StoredEvent
from gui.compare.comparison_plots import comparison_style
from gui.plots.panel.grid_layout import rows
from gui.plots.panel.run_plots import RunPlots
from gui.style.device_labels import DeviceLabel
from gui.style.theme import DARK, LIGHT
from tests.gui.plots.conftest import Inked, paint, titles
from tests.gui.stored_points import stored_points

STEPS = np.arange(1.0, 101.0)
HALF = np.full(100, 0.5)
GIB = 2**30


def test_every_series_finds_its_plot(run_plots: RunPlots) -> None:
    assert titles(run_plots) == ["Loss", "Device utilisation", "Device memory"]
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
        run_plots.add_points(series, stored_points(STEPS, HALF))
    assert titles(run_plots) == [
        "Loss",
        "Accuracy",
        "Grad norm",
        "Top 5",
        "Device utilisation",
        "Device memory",
        "Device temperature",
        "Device power",
    ]
    assert list(run_plots.plot("Loss").curves) == ["train", "val"]
    assert list(run_plots.plot("Device memory").curves) == ["GPU-a"]


def test_metrics_whose_names_differ_have_plots_of_their_own(run_plots: RunPlots) -> None:
    names = ("top_5", "top/5", "top 5", "IoU", "Iou")
    for number, name in enumerate(names):
        run_plots.add_points(f"validation/{name}", stored_points(STEPS, HALF * number))
    found = {plot.title: plot.curves["val"].series.last for plot in run_plots.plots()[1:6]}
    assert found == {"Top 5": 0.0, "Top/5": 0.5, "“top 5”": 1.0, "IoU": 1.5, "Iou": 2.0}


def test_training_and_validation_share_the_plot_of_a_metric(run_plots: RunPlots) -> None:
    run_plots.add_points("train/f1", stored_points(STEPS, HALF))
    run_plots.add_points("validation/f1", stored_points(STEPS, HALF))
    assert titles(run_plots).count("F1") == 1
    assert list(run_plots.plot("F1").curves) == ["train", "val"]


def test_only_the_comparison_has_a_plot_of_the_throughput(run_plots: RunPlots) -> None:
    run_plots.add_points("train/samples_per_second", stored_points(STEPS, HALF))
    assert "Throughput" not in titles(run_plots)
    compared = comparison_style("train/samples_per_second")
    assert compared is not None
    assert compared.plot.title == "Throughput"


def test_figures_are_in_the_unit_of_their_plot(run_plots: RunPlots) -> None:
    run_plots.add_points("validation/accuracy", stored_points(STEPS, HALF))
    run_plots.add_points("device/a/memory", stored_points(STEPS, HALF * 3 * GIB))
    run_plots.add_points("device/b/memory", stored_points(STEPS, HALF * GIB))
    run_plots.add_points("device/b/memory", stored_points(STEPS[-1:] + 1, HALF[:1]))
    run_plots.add_points("device/a/utilisation", stored_points(STEPS, HALF * 100))
    paint(run_plots)
    assert run_plots.plot("Accuracy").headline.text() == "50.0 %"
    assert run_plots.plot("Device memory").headline.text() == "1.5 GiB peak"
    assert run_plots.plot("Device utilisation").headline.text() == "50 %"
    run_plots.add_points("device/b/utilisation", stored_points(STEPS, HALF * 20))
    run_plots.add_points("device/c/utilisation", stored_points(STEPS, HALF * np.nan))
    paint(run_plots)
    assert run_plots.plot("Device utilisation").headline.text() == "30 % mean"
    run_plots.add_points("device/a/temperature", stored_points(STEPS, HALF * 160))
    run_plots.add_points("device/b/temperature", stored_points(STEPS, HALF * 120))
    for device, watts in (("a", 600), ("b", 500)):
        run_plots.add_points(f"device/{device}/power", stored_points(STEPS, HALF * 2 * watts))
    run_plots.resize(1000, 1600)
    paint(run_plots)
    assert run_plots.plot("Device temperature").headline.text() == "80 °C peak"
    assert run_plots.plot("Device power").headline.text() == "550 W mean"


def test_replaced_points_are_the_only_ones(run_plots: RunPlots) -> None:
    run_plots.add_points("device/a/memory", stored_points(STEPS, HALF * 8 * GIB))
    run_plots.set_points("device/a/memory", stored_points(STEPS[:5], HALF[:5] * 2 * GIB))
    paint(run_plots)
    assert run_plots.plot("Device memory").curves.x_range() == (1, 5)
    assert run_plots.plot("Device memory").headline.text() == "1.0 GiB peak"


def test_the_best_validation_gets_a_star(run_plots: RunPlots) -> None:
    def best_marker(title: str) -> tuple[float, float]:
        found = run_plots.plot(title).curves["val"].best_marker()
        assert found is not None
        return found[:2]

    run_plots.add_points(
        "validation/accuracy", stored_points(STEPS[:3], np.array([0.5, 0.75, np.nan]))
    )
    run_plots.add_points("validation/accuracy", stored_points(STEPS[3:5], np.array([0.6, 0.75])))
    run_plots.add_points("validation/loss", stored_points(STEPS[:3], np.array([0.5, 0.25, 0.75])))
    assert best_marker("Accuracy") == (2, 75)
    assert best_marker("Loss") == (2, 0.25)
    run_plots.set_points("validation/accuracy", stored_points(STEPS[:1], np.array([0.5])))
    assert best_marker("Accuracy") == (1, 50)
    run_plots.add_points("validation/top_5", stored_points(STEPS[:3], np.array([0.5, 0.25, 0.75])))
    run_plots.add_points(
        "validation/top_5_error", stored_points(STEPS[:3], np.array([0.5, 0.25, 0.75]))
    )
    assert best_marker("Top 5") == (3, 0.75)
    assert best_marker("Top 5 error") == (2, 0.25)
    assert run_plots.plot("Top 5").curves.best_markers(DARK)[0].colour == DARK.warn


def test_the_run_says_which_way_its_metrics_are_better(run_plots: RunPlots) -> None:
    """Points may come before and after the event that has the directions."""
    points = stored_points(STEPS[:3], np.array([0.5, 0.25, 0.75]))
    run_plots.add_points("validation/novelty", points)
    run_plots.add_points("validation/loss", points)
    directions = {"novelty": "min", "loss": "max", "mae": "max"}
    started = TrainingStarted(0, 1, 3, 1, 1, metric_directions=directions)
    run_plots.add_events([StoredEvent(1, 0.0, started)])
    run_plots.add_points("validation/mae", points)
    found = {
        kind: run_plots.plot(kind).curves["val"].best_marker()
        for kind in ("Novelty", "Loss", "Mae")
    }
    assert {kind: star and star[0] for kind, star in found.items()} == {
        "Novelty": 2,
        "Loss": 3,
        "Mae": 3,
    }


@pytest.mark.parametrize("values", [[], [math.nan]])
def test_the_best_marker_is_removed_with_its_points(
    run_plots: RunPlots, inked: Inked, values: list[float]
) -> None:
    canvas = run_plots.plot("Loss").canvas
    run_plots.add_points("train/loss", stored_points(STEPS, STEPS / 100))  # the visible range stays
    run_plots.add_points("validation/loss", stored_points(STEPS[:3], np.array([0.5, 0.25, 0.75])))
    paint(run_plots)
    assert inked(canvas, DARK.warn) > 5
    run_plots.set_points("validation/loss", stored_points(STEPS[: len(values)], np.array(values)))
    paint(run_plots)
    assert inked(canvas, DARK.warn) == 0
    run_plots.add_points("validation/loss", stored_points(STEPS[1:2], np.array([0.8])))
    paint(run_plots)
    assert inked(canvas, DARK.warn) > 5


def test_devices_have_the_names_and_the_colours_of_their_labels(run_plots: RunPlots) -> None:
    figures = {"utilisation", "memory", "temperature", "power"}
    for figure in figures:
        run_plots.add_points(f"device/b/{figure}", stored_points(STEPS, HALF))
    assert run_plots.plot("Device utilisation").legend.chip("b").text() == "b"
    run_plots.set_device_labels(
        {"cpu": DeviceLabel("CPU", 2), "a": DeviceLabel("GPU 0", 0), "b": DeviceLabel("GPU 1", 1)}
    )
    for figure in figures:
        run_plots.add_points(f"device/a/{figure}", stored_points(STEPS, HALF))
        chip = run_plots.plot(f"Device {figure}").legend.chip
        assert (chip("a").text(), chip("b").text()) == ("GPU 0", "GPU 1")
        dot = chip("b").icon().pixmap(QSize(8, 8), QIcon.Mode.Normal, QIcon.State.On)
        middle = dot.toImage().pixelColor(4, 4)
        assert middle.name() == DARK.cycle[1]


def test_devices_that_share_a_colour_have_different_dashes(run_plots: RunPlots) -> None:
    names = [f"gpu{number}" for number in range(16)]
    run_plots.add_points("device/gpu0/power", stored_points(STEPS, HALF))
    run_plots.set_device_labels(
        {name: DeviceLabel(name, number) for number, name in enumerate(names)}
    )
    for name in names[1:]:
        run_plots.add_points(f"device/{name}/power", stored_points(STEPS, HALF))
    curves = {curve.label: curve for curve in run_plots.plot("Device power").curves.curves()}
    looks = {(DARK.curve(curve.colour_index), curve.dash) for curve in curves.values()}
    assert len(looks) == 16
    assert [name for name in names if curves[name].dash.pattern] == names[8:]
    run_plots.set_device_labels({"gpu8": DeviceLabel("GPU 8", 0)})
    assert not curves["gpu8"].dash.pattern


def test_the_curves_of_sixteen_ranks_look_different(run_plots: RunPlots) -> None:
    shares = ("data_share", "compute_share", "communication_share")
    for rank in range(16):
        for share in shares:
            run_plots.add_points(f"rank/{rank}/{share}", stored_points(STEPS, HALF))
    plot = run_plots.plot("Step time")
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


def test_a_gap_in_a_devices_curve_is_not_drawn_and_not_zero(run_plots: RunPlots) -> None:
    values = np.where((STEPS > 40) & (STEPS < 60), np.nan, 80.0)
    run_plots.add_points("device/a/temperature", stored_points(STEPS, values))
    run_plots.set_device_labels({"a": DeviceLabel("GPU 0", 0)})
    plot = run_plots.plot("Device temperature")
    run_plots.resize(1000, 1400)
    paint(run_plots)
    plot.set_crosshair(30)
    assert "80 °C" in plot.canvas.crosshair.box.text()
    plot.set_crosshair(50)
    assert "80" not in plot.canvas.crosshair.box.text()
    assert "0 °C" not in plot.canvas.crosshair.box.text()


def test_another_run_begins_with_empty_plots(run_plots: RunPlots) -> None:
    run_plots.add_points("train/loss", stored_points(STEPS, HALF))
    run_plots.add_points("validation/accuracy", stored_points(STEPS, HALF))
    run_plots.add_points("device/a/memory", stored_points(STEPS, HALF * 8 * GIB))
    run_plots.clear()
    assert titles(run_plots) == ["Loss", "Device utilisation", "Device memory"]
    assert all(plot.curves.x_range() is None for plot in run_plots.plots())
    run_plots.add_points("device/a/memory", stored_points(STEPS, HALF * 2 * GIB))
    paint(run_plots)
    assert run_plots.plot("Device memory").headline.text() == "1.0 GiB peak"


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
    run_plots: RunPlots, count: int, columns: int, expected: list[int]
) -> None:
    for number in range(count - 3):
        run_plots.add_points(f"train/metric_{number}", stored_points(STEPS, HALF))
    found = rows(run_plots.plots(), columns)
    assert [len(row) for row in found] == expected
    assert [plot for row in found for plot in row] == run_plots.plots()


def test_a_wide_window_has_three_columns(run_plots: RunPlots) -> None:
    def tops() -> list[int]:
        QApplication.processEvents()
        return [plot.y() for plot in run_plots.plots()]

    first, second, third = tops()
    assert first == second < third
    run_plots.resize(1920, 700)
    assert len(set(tops())) == 1
    run_plots.resize(1919, 700)
    assert len(set(tops())) == 2


def test_another_theme_reaches_every_plot(run_plots: RunPlots) -> None:
    run_plots.add_points("train/loss", stored_points(STEPS, HALF))
    run_plots.set_theme(LIGHT)
    paint(run_plots)
    image = run_plots.plot("Loss").canvas.grab().toImage()
    assert image.pixelColor(image.width() // 2, 3).name() == LIGHT.card


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_steps_whose_loss_is_no_number_are_marked(
    value: float, run_plots: RunPlots, inked: Inked
) -> None:
    plot = run_plots.plot("Loss")
    values = np.ones(100)
    run_plots.add_points("train/loss", stored_points(np.arange(100.0), values))
    run_plots.add_points("device/cpu/memory", stored_points(np.arange(100.0), np.full(100, value)))
    paint(run_plots)
    assert inked(plot.canvas, DARK.bad) == 0
    values[50] = value
    run_plots.set_points("train/loss", stored_points(np.arange(100.0), values))
    paint(run_plots)
    assert inked(plot.canvas, DARK.bad) > 5
    assert inked(run_plots.plot("Device memory").canvas, DARK.bad) == 0, (
        "nothing was measured there"
    )
