"""The labels of the ticks are short and different, and all of them are drawn."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from PySide6.QtGui import QImage, QPainter
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from gui.plots.data.growing_pyramid import Array
from gui.plots.data.x_axis import XKind, XScale
from gui.plots.plot.curve_plot import CurvePlot
from tests.gui.stored_points import stored_points

STEPS = np.arange(100.0)


def drawn(plot: CurvePlot, orientation: str) -> list[str]:
    """The texts of an axis, as they are painted; none of them touches another."""
    image = QImage(10, 10, QImage.Format.Format_RGB32)
    painter = QPainter(image)
    for _ in range(5):  # the first labels make the axis wide enough
        _, _, texts = plot.canvas.getAxis(orientation).generateDrawSpecs(painter)
        QApplication.processEvents()
    painter.end()
    places = [place for place, _, _ in texts]
    assert not any(a.intersects(b) for a, b in pairwise(places))
    return [text for _, _, text in texts]


@pytest.mark.parametrize(
    ("values", "middle"),
    [
        (0.003 + STEPS * 2e-13, "0.003"),
        (np.full(100, float(np.float32(0.003))), "0.003"),  # 0.0030000000260770
        (np.float32(1 / 3) + STEPS * 3e-9, "0.3333"),
        (np.zeros(100), "0"),
        (np.full(100, -7.0), "-7"),
    ],
)
def test_rounded_off_values_are_a_line(plot: CurvePlot, values: Array, middle: str) -> None:
    plot.add_points("train", stored_points(STEPS, values))
    plot.refresh()
    labels = drawn(plot, "left")
    assert len(set(labels)) == len(labels) >= 3
    assert max(map(len, labels)) <= 7
    low, high = plot.canvas.area.viewRange()[1]
    assert (low + high) / 2 == pytest.approx(float(middle), abs=(high - low) / 20)
    assert plot.canvas.getAxis("left").offset == ""


@pytest.mark.parametrize("log", [False, True])
def test_nearly_equal_values_are_differences(plot: CurvePlot, log: bool, qtbot: QtBot) -> None:
    plot.add_points("train", stored_points(STEPS, 0.69315 + STEPS * 1e-7))
    plot.set_log_y(log)
    plot.refresh()
    assert drawn(plot, "left") == ["0", "+2e-6", "+4e-6", "+6e-6", "+8e-6", "+1e-5"]
    qtbot.waitUntil(lambda: plot.header.unit.text() == "nats, 0.69315 + …")
    plot.canvas.area.setYRange(*((-1, 0) if log else (0, 1)), padding=0)
    drawn(plot, "left")
    qtbot.waitUntil(lambda: plot.header.unit.text() == "nats")


@pytest.mark.parametrize("scale", [3e38, 1e-30, -1e299])
def test_the_axis_of_any_size_can_be_read(plot: CurvePlot, scale: float) -> None:
    values = np.where(STEPS % 10 == 3, np.nan, scale * STEPS)
    plot.add_points("train", stored_points(STEPS, values))
    plot.refresh()
    labels = drawn(plot, "left")
    assert len(labels) >= 3
    assert max(map(len, labels)) <= 8


def test_a_horizontal_axis_says_what_it_shows_and_no_label_touches_another(plot: CurvePlot) -> None:
    steps = 9_876_500 + STEPS
    plot.add_points("train", stored_points(steps, STEPS, 1.7e9 + STEPS))
    plot.refresh()
    labels = drawn(plot, "bottom")
    assert labels[0] == "step"
    assert labels[1:] == ["9,876,550"]
    for kind, name in ((XKind.RELATIVE, "time"), (XKind.WALL, "clock"), (XKind.EPOCH, "epoch")):
        plot.set_x_scale(XScale(kind))
        plot.refresh()
        assert drawn(plot, "bottom")[0] == name


def test_a_wide_axis_has_few_labels_and_a_narrow_one_more_than_one(plot: CurvePlot) -> None:
    plot.resize(1200, 260)
    plot.add_points("train", stored_points(STEPS, STEPS))
    plot.refresh()
    assert 8 < len(drawn(plot, "bottom")) < 18
    plot.clear()
    plot.resize(270, 190)
    steps = np.arange(588.0)
    plot.add_points("train", stored_points(steps, steps))
    plot.refresh()
    assert drawn(plot, "bottom") == ["step", "0", "200", "400"]
