"""One plot: what it draws, and when it paints."""

from __future__ import annotations

import math

import numpy as np
import pytest
from pyqtgraph import ScatterPlotItem
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.runs.store.downsampling import BlockStatistics
from engine.runs.store.stored_points import StoredPoints
from gui.plots.data.growing_pyramid import Array
from gui.plots.data.x_axis import XKind, XScale
from gui.plots.export.figure_of import figure_of
from gui.plots.plot.curve_plot import CurvePlot
from gui.style.theme import DARK, LIGHT
from tests.gui.plots.conftest import Inked, has_crosshair, in_sight, place_of, read_out
from tests.gui.stored_points import stored_points
from tests.support.sentences import sentence

STEPS = np.arange(100.0)


def blocks(first: Array, low: float, high: float) -> StoredPoints:
    """Blocks of 16 points, with their step as their time."""
    steps, values = np.repeat(first, 2), np.tile([low, high], len(first))
    statistics = BlockStatistics(np.full(len(steps), (low + high) / 2), np.full(len(steps), 8.0))
    return StoredPoints(steps, steps, values, 16 * len(first), statistics)


def test_it_paints_only_what_is_new_and_only_when_it_can_be_seen(plot: CurvePlot) -> None:
    plot.refresh()
    assert not plot.refresh()
    plot.add_points("train", stored_points(STEPS, STEPS))
    plot.hide()
    assert not plot.refresh()
    plot.show()
    assert plot.refresh()
    assert not plot.refresh()


def test_a_click_on_its_chip_hides_a_curve(plot: CurvePlot, inked: Inked) -> None:
    plot.set_curve("train", colour_index=3, label="training")
    plot.add_points("train", stored_points(STEPS, STEPS**2))
    plot.refresh()
    assert inked(plot.canvas, DARK.cycle[3]) > 300
    chip = plot.legend.chip("train")
    assert chip.text() == "training"
    QTest.mouseClick(chip, Qt.MouseButton.LeftButton)
    plot.refresh()
    assert inked(plot.canvas, DARK.cycle[3]) == 0
    QTest.mouseClick(chip, Qt.MouseButton.LeftButton)
    plot.refresh()
    assert inked(plot.canvas, DARK.cycle[3]) > 300


def test_a_curve_without_points_leaves_the_words_that_there_are_none(plot: CurvePlot) -> None:
    plot.add_points("val", stored_points(np.array([]), np.array([])))
    assert not plot.canvas.isVisible()
    plot.add_points("val", stored_points(np.array([7.0]), np.array([0.5])))
    assert plot.canvas.isVisible()


def test_no_dot_is_left_out_after_a_zoom(plot: CurvePlot) -> None:
    plot.add_points("val", stored_points(np.arange(10.0), np.arange(10.0)))
    plot.refresh()
    plot.grab()
    dots = [item for item in plot.canvas.area.addedItems if isinstance(item, ScatterPlotItem)]
    plot.canvas.zoom_x(0.5, 7.0)
    QApplication.processEvents()  # painted once before the points have their new positions
    plot.refresh()
    plot.grab()
    for item in dots:
        viewport = item.viewRect().left() + item.pos().x()
        assert viewport == pytest.approx(in_sight(plot)[0]), "elsewhere it leaves points out"
    assert dots


def test_an_item_without_points_is_not_painted(plot: CurvePlot) -> None:
    """To paint an empty one takes as long as a short line."""
    plot.add_points("train", stored_points(STEPS, STEPS))
    items = plot.curves["train"].items
    raw, line, _ = items
    plot.refresh()
    assert [item for item in items if item.isVisible()] == [line]
    plot.set_smoothing(0.9)
    plot.refresh()
    assert [item for item in items if item.isVisible()] == [raw, line]
    plot.set_show_raw(False)
    plot.refresh()
    assert [item for item in items if item.isVisible()] == [line]


@pytest.mark.parametrize("count", [100, 40_000])
def test_infinity_does_not_stretch_the_axis(plot: CurvePlot, count: int) -> None:
    values = np.full(count, 2.0)
    values[::2] = 1.0
    values[count // 4 : count // 2] = np.nan
    values[-3] = np.inf
    values[-2] = -np.inf
    plot.add_points("train", stored_points(np.arange(float(count)), values))
    plot.set_smoothing(0.5)
    plot.refresh()
    _, _, low, high = in_sight(plot)
    assert 0.5 < low < 1
    assert 2 < high < 2.5
    left = place_of(plot, 0.3 * count, high).x()
    right = place_of(plot, 0.45 * count, high).x()
    image = plot.canvas.grab().toImage()
    y = place_of(plot, 0, 1.51).y()
    assert {image.pixelColor(x, y).name() for x in range(left, right)} == {DARK.card}


def test_the_largest_doubles_and_only_nan_do_not_crash(plot: CurvePlot) -> None:
    largest = float(np.finfo(float).max)
    plot.add_points(
        "train", stored_points(np.arange(5.0), np.array([-largest, -1e300, 0.0, 1e300, largest]))
    )
    assert plot.refresh()
    plot.grab()
    _, _, low, high = in_sight(plot)
    assert -2e300 < low < -1e300
    assert 1e300 < high < 2e300
    plot.clear()
    plot.add_points("train", stored_points(STEPS, np.full(100, np.nan)))
    plot.set_smoothing(0.9)
    plot.set_log_y(True)
    assert plot.refresh()
    assert read_out(plot) == "train nan"
    plot.canvas.grab()


def test_a_logarithmic_axis_has_decades(plot: CurvePlot, inked: Inked) -> None:
    plot.set_curve("train", best_sign=-1)
    plot.add_points("train", stored_points(STEPS, np.where(STEPS < 50, -1.0, 10.0 ** (STEPS / 25))))
    plot.set_log_y(True)
    plot.refresh()
    _, _, low, high = in_sight(plot)
    assert low == pytest.approx(2, abs=0.2)
    assert high == pytest.approx(4, abs=0.2)
    axis = plot.canvas.getAxis("left")
    ((_, marks),) = axis.tickValues(low, high, 200)
    labels = ["100", "200", "500", "1k", "2k", "5k", "10k"]
    assert axis.tickStrings(marks, 1.0, None) == labels
    assert inked(plot.canvas, DARK.warn) == 0
    plot.set_log_y(False)
    plot.refresh()
    assert inked(plot.canvas, DARK.warn) > 5


def test_a_fixed_range_is_kept_and_left_when_the_values_leave_it(qtbot: QtBot) -> None:
    plot = CurvePlot("Utilisation", y_range=(0.0, 100.0), theme=DARK)
    qtbot.addWidget(plot)
    plot.show()
    plot.add_points("0", stored_points(STEPS, np.full(100, 50.0)))
    plot.refresh()
    assert in_sight(plot)[2:] == pytest.approx((-6, 106))
    plot.add_points("0", stored_points(STEPS + 100, np.full(100, 150.0)))
    plot.refresh()
    assert in_sight(plot)[3] > 150


def test_a_value_of_another_step_says_its_step(plot: CurvePlot) -> None:
    plot.set_curve("train", label="<train>")
    plot.add_points("train", stored_points(STEPS, STEPS))
    plot.add_points("val", stored_points(np.array([0.0, 20.0]), np.array([5.0, np.nan])))
    plot.refresh()
    assert read_out(plot) == "<train> 99.00, val nan", "the newest ones"
    plot.set_crosshair(20.6)
    assert read_out(plot) == "<train> 21.00, val –", "the curve has ended before"
    plot.set_crosshair(20.2)
    assert has_crosshair(plot)
    assert read_out(plot) == "<train> 20.00, val nan", "the last step of both"
    assert plot.headline.text() == "step 20", "the point that is read, not the place of the mouse"
    assert plot.canvas.crosshair.dots == [(20.0, 20.0, DARK.cycle[0])]
    plot.set_crosshair(20.0)
    assert read_out(plot) == "<train> 20.00, val nan"
    plot.set_crosshair(None)
    assert not has_crosshair(plot)
    assert read_out(plot) == "<train> 99.00, val nan"
    plot.clear()
    plot.add_points("train", stored_points(STEPS, STEPS))
    plot.add_points("val", stored_points(np.array([30.0, 60.0]), np.array([5.0, 7.0])))
    plot.refresh()
    plot.set_crosshair(59.0)
    assert read_out(plot) == "train 59.00, val 7.00 @ 60"
    plot.set_crosshair(60.0)
    assert read_out(plot) == "train 60.00, val 7.00"
    plot.set_crosshair(None)
    assert read_out(plot) == "train 99.00, val 7.00", "the newest ones"


@pytest.mark.parametrize("log", [False, True])
def test_a_smoothed_value_is_never_shown_as_that_of_a_point(plot: CurvePlot, log: bool) -> None:
    """At smoothing 0.9 the crosshair showed 0.04741 where the point was 0.0306."""
    values = np.where(STEPS == 50, 2.0, 1.0)
    plot.add_points("train", stored_points(STEPS, values))
    plot.set_log_y(log)
    plot.set_smoothing(0.9)
    plot.refresh()
    plot.set_crosshair(50.0)
    chip = plot.legend.chip("train")
    assert chip.value == "2.00"
    assert chip.smoothed == "1.10"
    assert chip.read_out == "train 2.00 smoothed 1.10"
    ((_, y, _),) = plot.canvas.crosshair.dots
    assert y == pytest.approx(math.log10(2) if log else 2)
    plot.set_crosshair(None)
    assert chip.read_out == "train 1.00 smoothed 1.00"
    plot.set_smoothing(0.0)
    plot.refresh()
    assert chip.read_out == "train 1.00"


def test_replacing_and_clearing(plot: CurvePlot, inked: Inked) -> None:
    plot.set_curve("train", best_sign=1)
    plot.add_points("train", stored_points(STEPS, STEPS))
    plot.set_points("train", stored_points(STEPS[:10], STEPS[:10]))
    plot.refresh()
    assert plot.curves.x_range() == (0.0, 9.0)
    plot.clear()
    plot.refresh()
    assert list(plot.curves) == []
    assert plot.curves.x_range() is None
    assert plot.headline.text() == ""
    plot.add_points("val", stored_points(STEPS, STEPS))
    plot.refresh()
    assert inked(plot.canvas, DARK.warn) == 0
    assert read_out(plot) == "val 99.00"
    plot.set_curve("val", best_sign=-1)
    plot.add_points("val", stored_points(STEPS, STEPS[::-1]))
    plot.refresh()
    assert plot.canvas.best_markers
    plot.clear()
    plot.add_points("train", stored_points(STEPS, STEPS))
    assert not plot.canvas.best_markers


def test_a_headline_can_be_given(plot: CurvePlot) -> None:
    plot.add_points("train", stored_points(STEPS, STEPS))
    plot.set_headline("94 % mean")
    plot.refresh()
    assert plot.headline.text() == "94 % mean"
    plot.set_crosshair(20)
    assert plot.headline.text() == "step 20", "the place that the values belong to"
    plot.set_crosshair(None)
    assert plot.headline.text() == "94 % mean"
    plot.set_headline("")
    plot.refresh()
    assert plot.headline.text() == ""


def test_points_that_are_not_finite_are_counted_where_marked(plot: CurvePlot) -> None:
    values = STEPS.copy()
    values[[1, 3, 5, 6]] = np.nan, np.inf, -np.inf, 2e300
    plot.add_points("train", stored_points(STEPS, values))
    plot.refresh()
    assert plot.header.unit.text() == "nats", "there was nothing to measure"
    plot.set_curve("train", marks_gaps=True)
    plot.refresh()
    assert plot.header.unit.text() == sentence("nats-points-not-finite", value=4)
    assert "1e300" in plot.header.unit.toolTip()
    plot.legend.chip("train").click()
    plot.refresh()
    assert plot.header.unit.text() == "nats", "of the visible curves"


def test_a_logarithmic_axis_says_how_many_points_it_has_no_place_for(plot: CurvePlot) -> None:
    values = STEPS / STEPS[-1]
    values[[1, 3, 5]] = 0.0, -0.5, -1e-30
    plot.add_points("train", stored_points(STEPS, values))
    plot.add_points("val", stored_points(np.array([10.0]), np.array([0.0])))
    plot.refresh()
    assert plot.header.unit.text() == "nats"
    plot.set_log_y(True)
    plot.refresh()
    assert plot.header.unit.text() == sentence(
        "nats-points-not-drawn", value=3 + 1 + (values[0] == 0)
    )
    assert "no place" in plot.header.unit.toolTip()
    assert plot.left_out in figure_of(plot, "run 1").source, "a picture says it too"
    plot.legend.chip("train").click()
    plot.refresh()
    assert plot.header.unit.text() == sentence("nats-point-not-drawn"), "of the visible curves"
    plot.legend.chip("val").click()
    plot.refresh()
    assert plot.header.unit.text() == "nats"
    plot.clear()
    plot.add_points("train", blocks(STEPS, -1.0, 1.0))
    plot.set_log_y(True)
    plot.refresh()
    assert plot.header.unit.text() == sentence("nats-values-not-drawn")


def test_a_block_or_a_column_of_pixels_is_called_by_its_steps(plot: CurvePlot) -> None:
    count = 100_000
    steps = np.arange(float(count))
    plot.add_points("train", stored_points(steps, steps))
    plot.refresh()
    plot.set_crosshair(50_000)
    words = plot.headline.text().replace(",", "").split(" · ")[0].split()
    first, last = float(words[1]), float(words[3])
    assert first < 50_000 < last
    low, high = (float(each) for each in read_out(plot).split()[1].split("–"))
    assert (low, high) == (first, last), "the values of these steps, each of which is its own value"
    plot.clear()
    first = 16.0 * np.arange(8)
    plot.add_points("train", blocks(first, 1.0, 2.0))
    plot.add_points("train", stored_points(np.array([128.0, 129.0]), np.array([3.0, 4.0])))
    plot.add_points("val", stored_points(first, first))
    plot.refresh()
    plot.set_crosshair(32)
    assert plot.headline.text() == "steps 32 to 47"
    assert read_out(plot) == "train 1.00–2.00, val 32.00 @ 32", "a point is of one step"
    assert plot.readings(112.0)[0] == "steps 112 to 127", "up to the next point"
    plot.set_crosshair(128)
    assert plot.headline.text() == "step 128"
    plot.set_x_scale(XScale(XKind.WALL))
    assert plot.readings(32.0)[0].endswith("steps 32 to 47")


def test_another_theme_changes_every_colour(plot: CurvePlot, inked: Inked) -> None:
    plot.add_points("train", stored_points(STEPS, STEPS))
    plot.refresh()
    plot.set_theme(LIGHT)
    plot.refresh()
    assert inked(plot.canvas, DARK.cycle[0]) == 0
    assert inked(plot.canvas, LIGHT.cycle[0]) > 200
    assert plot.canvas.grab().toImage().pixelColor(200, 5).name() == LIGHT.card


def test_the_range_of_the_smoothing_is_taken(plot: CurvePlot) -> None:
    plot.set_smoothing(0.999)
    plot.set_curve("val", smooth=False)
    plot.add_points("val", stored_points(STEPS, STEPS))
    plot.add_points("train", stored_points(STEPS, STEPS))
    plot.refresh()
    plot.set_crosshair(99.0)
    assert plot.legend.chip("val").read_out == "val 99.00"
    assert plot.legend.chip("train").read_out.startswith("train 99.00 smoothed 5")
    assert math.isclose(plot.curves.x_range()[1], 99.0)  # type: ignore[index]


def test_only_the_strokes_of_a_band_have_no_smooth_edges(plot: CurvePlot) -> None:
    """Smooth edges take most of the time of a long noisy curve; a smooth curve needs them."""
    steps = np.arange(100_000.0)
    noise = np.random.default_rng(0).normal(size=len(steps))
    for name, values in (("noisy", noise), ("even", np.sin(steps / 3e4))):
        plot.add_points(name, stored_points(steps, values))
    plot.refresh()
    edges = {name: plot.curves[name].lines[1].opts["antialias"] for name in ("noisy", "even")}
    assert edges == {"noisy": False, "even": True}
    plot.set_smoothing(0.9)
    plot.refresh()
    assert plot.curves["noisy"].lines[1].opts["antialias"]
