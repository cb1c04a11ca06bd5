"""All plots of a run: which series each shows, its headline, and its position."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.messages.events import TrainingStarted
from engine.runs.store.store_reader import StoredEvent
from gui.compare.comparison_plots import comparison_style
from gui.plots.data.series_style import PlotKind
from gui.plots.panel.grid_layout import row_heights, rows
from gui.plots.panel.run_plots import RunPlots
from gui.plots.plot.curve_plot import CurvePlot
from gui.style.device_labels import DeviceLabel
from gui.style.theme import DARK
from tests.gui.plots.conftest import paint, read_out, titles
from tests.gui.stored_points import stored_points

STEPS = np.arange(1.0, 101.0)
HALF = np.full(100, 0.5)
GIB = 2**30


def test_every_series_finds_its_plot(run_plots: RunPlots) -> None:
    assert titles(run_plots) == ["Loss", "Device memory", "Device utilisation"]
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
        "device/GPU-a/whatever",
    ):
        run_plots.add_points(series, stored_points(STEPS, HALF))
    assert titles(run_plots) == [
        "Loss",
        "Accuracy",
        "Grad norm",
        "Top 5",
        "Device memory",
        "Device utilisation",
        "Throughput",
        "Device temperature",
        "Device power",
    ]
    assert list(run_plots.plot("Loss").curves) == ["train", "val"]
    assert list(run_plots.plot("Device memory").curves) == ["GPU-a"]


def test_many_plots_are_made_a_few_at_a_time_and_miss_no_point(
    run_plots: RunPlots, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"custom/metric{number:02}" for number in range(60)]
    for name in names:
        run_plots.set_points(name, stored_points(STEPS, HALF))
    for name in names:
        run_plots.add_points(name, stored_points(STEPS + 100, HALF))
    run_plots.add_points("train/loss", stored_points(STEPS, HALF))
    assert list(run_plots.plot("Loss").curves) == ["train"], "its plot is there"
    before = len(run_plots.plots())
    assert 3 < before < 40
    counts: list[int] = []
    show = run_plots.visibility.grid.show_plots

    def counted(plots: Mapping[PlotKind, CurvePlot]) -> None:
        counts.append(len(plots))
        show(plots)

    monkeypatch.setattr(run_plots.visibility.grid, "show_plots", counted)
    qtbot.waitUntil(lambda: len(run_plots.plots()) == 63)
    assert max(later - earlier for earlier, later in pairwise([before, *counts])) <= 4
    for plot in run_plots.plots():
        for name in plot.curves:
            assert plot.curves[name].series.x_range() == (
                1.0,
                100.0 if plot.title == "Loss" else 200.0,
            )


def test_plots_that_are_not_made_yet_are_forgotten_with_their_run(run_plots: RunPlots) -> None:
    for number in range(60):
        run_plots.add_points(f"custom/metric{number}", stored_points(STEPS, HALF))
    run_plots.clear()
    run_plots.add_points("custom/mine", stored_points(STEPS, HALF))
    QApplication.processEvents()
    assert len(run_plots.plots()) == 4, "three are always there"


def test_metrics_whose_names_differ_have_plots_of_their_own_and_parts_share_one(
    run_plots: RunPlots,
) -> None:
    names = ("top_5", "top/5", "top 5", "IoU", "Iou")
    for number, name in enumerate(names):
        run_plots.add_points(f"validation/{name}", stored_points(STEPS, HALF * number))
    found = {plot.title: plot.curves["val"].series.last for plot in run_plots.plots()[1:6]}
    assert found == {"Top 5": 0.0, "Top/5": 0.5, "“top 5”": 1.0, "IoU": 1.5, "Iou": 2.0}
    run_plots.clear()
    run_plots.add_points("train/f1", stored_points(STEPS, HALF))
    run_plots.add_points("validation/f1", stored_points(STEPS, HALF))
    assert titles(run_plots).count("F1") == 1
    assert list(run_plots.plot("F1").curves) == ["train", "val"]


def test_figures_are_in_the_unit_of_their_plot(run_plots: RunPlots) -> None:
    run_plots.add_points("train/samples_per_second", stored_points(STEPS, HALF * 4000))
    paint(run_plots)
    assert read_out(run_plots.plot("Throughput")) == "train 2,000"
    assert run_plots.plot("Throughput").isVisible()
    compared = comparison_style("train/samples_per_second")
    assert compared.plot.title == "Throughput"
    run_plots.clear()
    run_plots.add_points("validation/accuracy", stored_points(STEPS, HALF))
    run_plots.add_points("device/a/memory", stored_points(STEPS, HALF * 3 * GIB))
    run_plots.add_points("device/b/memory", stored_points(STEPS, HALF * GIB))
    run_plots.add_points("device/b/memory", stored_points(STEPS[-1:] + 1, HALF[:1]))
    run_plots.add_points("device/a/utilisation", stored_points(STEPS, HALF * 100))
    paint(run_plots)
    assert read_out(run_plots.plot("Accuracy")) == "val 50.0"
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


def test_the_best_validation_gets_a_star_as_the_run_says(run_plots: RunPlots) -> None:
    def best_marker(title: str) -> tuple[float, float]:
        found = run_plots.plot(title).curves["val"].best_marker()
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
    run_plots.clear()
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


def test_the_loss_says_that_there_is_no_validation_data(run_plots: RunPlots) -> None:
    run_plots.add_points("train/loss", stored_points(STEPS, STEPS / 100))
    started = TrainingStarted(0, 1, 3, 1, 1, validates=False)
    run_plots.add_events([StoredEvent(1, 0.0, started)])
    paint(run_plots)
    loss = run_plots.plot("Loss")
    assert loss.headline.text() == "no validation data"
    run_plots.add_events([StoredEvent(2, 0.0, TrainingStarted(0, 1, 3, 1, 1))])  # a changed recipe
    paint(run_plots)
    assert loss.headline.text() == ""


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
        plot = run_plots.plot(f"Device {figure}")
        assert [plot.legend.chip(each).text() for each in "ab"] == ["GPU 0", "GPU 1"]
        assert [plot.curves[each].colour_index for each in "ab"] == [0, 1]


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
    run_plots.clear()
    shares = ("data_share", "compute_share", "communication_share")
    for rank in range(16):
        for share in shares:
            run_plots.add_points(f"rank/{rank}/{share}", stored_points(STEPS, HALF))
    plot = run_plots.plot("Step time by rank")
    looks = {(DARK.curve(curve.colour_index), curve.dash) for curve in plot.curves.curves()}
    assert len(looks) == 48
    QApplication.processEvents()  # the legend is arranged once for all of them
    shown = plot.legend.chips()
    assert shown[-1] is plot.legend.more, "a menu has those that do not fit"
    assert plot.legend.more.text() == f"+{48 - len(shown) + 1}"


def test_a_gap_in_a_devices_curve_is_not_drawn_and_not_zero(run_plots: RunPlots) -> None:
    values = np.where((STEPS > 40) & (STEPS < 60), np.nan, 80.0)
    run_plots.add_points("device/a/temperature", stored_points(STEPS, values))
    run_plots.set_device_labels({"a": DeviceLabel("GPU 0", 0)})
    plot = run_plots.plot("Device temperature")
    run_plots.resize(1000, 1400)
    paint(run_plots)
    plot.set_crosshair(30)
    assert read_out(plot) == "GPU 0 80"
    plot.set_crosshair(50)
    assert read_out(plot) == "GPU 0 nan"


def test_another_run_begins_with_empty_plots(run_plots: RunPlots) -> None:
    run_plots.add_points("train/loss", stored_points(STEPS, HALF))
    run_plots.add_points("validation/accuracy", stored_points(STEPS, HALF))
    run_plots.add_points("device/a/memory", stored_points(STEPS, HALF * 8 * GIB))
    run_plots.clear()
    assert titles(run_plots) == ["Loss", "Device memory", "Device utilisation"]
    assert all(plot.curves.x_range() is None for plot in run_plots.plots())
    run_plots.add_points("device/a/memory", stored_points(STEPS, HALF * 2 * GIB))
    paint(run_plots)
    assert run_plots.plot("Device memory").headline.text() == "1.0 GiB peak"
    run_plots.clear()
    run_plots.add_points("device/a/memory", stored_points(STEPS, HALF * 8 * GIB))
    run_plots.set_points("device/a/memory", stored_points(STEPS[:5], HALF[:5] * 2 * GIB))
    paint(run_plots)
    assert run_plots.plot("Device memory").curves.x_range() == (1, 5)
    assert run_plots.plot("Device memory").headline.text() == "1.0 GiB peak"
    run_plots.clear()
    run_plots.add_points("train/loss", stored_points(STEPS, HALF))
    paint(run_plots)
    run_plots.add_points("train/loss", stored_points(STEPS + 100, HALF / 2))
    chip = run_plots.plot("Loss").legend.chip("train")
    assert chip.value == "0.5"
    run_plots.show_newest()
    assert chip.value == "0.25"


def test_no_plot_is_left_alone_in_a_wide_row(run_plots: RunPlots) -> None:
    for count, columns, expected in (
        (3, 2, [2, 1]), (4, 2, [2, 2]), (3, 3, [3]), (4, 3, [2, 2]), (5, 3, [3, 2]),
        (7, 3, [3, 2, 2]),
    ):  # fmt: skip
        run_plots.clear()
        for number in range(count - 3):
            run_plots.add_points(f"train/metric_{number}", stored_points(STEPS, HALF))
        found = rows(run_plots.plots(), columns)
        assert [len(row) for row in found] == expected
        assert [plot for row in found for plot in row] == run_plots.plots()


def test_a_wide_panel_has_more_columns_and_a_high_one_more_rows(run_plots: RunPlots) -> None:
    names = ["loss", *(f"metric_{number}" for number in range(9))]
    for series in ("device/a/memory", "device/a/utilisation", *(f"train/{name}" for name in names)):
        run_plots.add_points(series, stored_points(STEPS, HALF))

    def members() -> list[int]:
        tops = [plot.y() for plot in run_plots.plots()]
        assert tops == sorted(tops)
        return [tops.count(top) for top in dict.fromkeys(tops)]

    found = {}
    for width in (842, 944, 1590, 3500):
        run_plots.resize(width, 900)
        found[width] = members()
    assert found == {
        842: [2, 3, 3, 2, 2],
        944: [2, 3, 3, 2, 2],
        1590: [2, 4, 3, 3],
        3500: [3, 5, 4],
    }


@pytest.mark.parametrize(
    ("available", "visible"), [(480, 2), (550, 2), (590, 2), (700, 3), (860, 3), (1900, 4)]
)
def test_the_first_row_has_the_space_and_the_panel_is_filled(available: int, visible: int) -> None:
    """480 is the panel in a window of 900 x 700, 590 in one of 1280 x 800."""
    heights = row_heights(4, available)
    assert heights[0] >= 280
    assert heights[0] >= 1.4 * heights[1] or available < 500
    assert min(heights) >= 150
    assert sum(heights[:visible]) + 8 * (visible - 1) == available


@pytest.mark.parametrize("available", [200, 250, 310])
def test_a_low_panel_shows_one_whole_row_and_no_part_of_the_next(available: int) -> None:
    assert row_heights(3, available, low=True)[0] == available
    assert row_heights(3, available)[0] < available


def test_beside_the_loss_is_the_main_metric_and_never_an_empty_plot(run_plots: RunPlots) -> None:
    for logged, expected in (
        (("train/loss", "validation/f1", "validation/accuracy", "validation/mae"), "Loss,F1"),
        (("train/loss", "validation/mae", "validation/f1"), "Loss,F1"),
        (("train/loss", "validation/aaa", "train/zoom_accuracy"), "Loss,Aaa"),
        (("train/loss", "rank/0/compute_share"), "Loss,Step time"),
        (("train/loss", "train/samples_per_second"), "Loss,Throughput"),
        (("train/loss", "train/error", "val/acc"), "Loss,val/acc"),
        (("episode error", "episode reward", "fps"), "episode reward,episode error"),
        (("device/a/memory", "train/loss"), "Loss,Device memory"),
        (("a/b", "a/c"), "a/b,a/c"),
    ):
        run_plots.clear()
        for series in logged:
            run_plots.add_points(series, stored_points(STEPS, HALF))
        QApplication.processEvents()
        shown = [plot for plot in run_plots.plots() if plot.isVisible()]
        assert not any(plot.is_empty for plot in shown if plot.title != "Step time")
        assert [plot.title for plot in shown if plot.y() == 0] == expected.split(",")


def test_the_direction_of_a_metric_decides_which_is_the_main_one(run_plots: RunPlots) -> None:
    for name in ("validation/loss", "validation/accuracy", "validation/novelty"):
        run_plots.add_points(name, stored_points(STEPS, HALF))
    assert titles(run_plots)[1] == "Accuracy"
    directions = {"accuracy": "min", "novelty": "max"}
    started = TrainingStarted(0, 1, 3, 1, 1, metric_directions=directions)
    run_plots.add_events([StoredEvent(1, 0.0, started)])
    assert titles(run_plots)[1] == "Novelty"


@pytest.mark.parametrize("machine_first", [False, True])
@pytest.mark.parametrize("cpu", ["cpu", "gpus/cpu"])
def test_the_memory_of_a_cpu_is_that_of_the_run_and_else_said_to_be_the_machines(
    cpu: str, machine_first: bool, run_plots: RunPlots
) -> None:
    run_plots.set_device_labels({cpu: DeviceLabel("CPU", 1)})
    plot = run_plots.plot("Device memory")
    series = {f"device/{cpu}/memory": 19.0, f"device/{cpu}/process_memory": 0.5}
    for name in sorted(series, reverse=not machine_first):
        run_plots.add_points(name, stored_points(STEPS, np.full(len(STEPS), series[name] * GIB)))
        paint(run_plots)
        if name.endswith("/memory"):
            shown = machine_first
            assert (plot.headline.text() == "19.0 GiB peak") == shown
            assert ("whole machine" in plot.curves[cpu].label) == shown
    assert plot.headline.text() == "0.5 GiB peak"
    assert plot.curves[cpu].label == "CPU"
