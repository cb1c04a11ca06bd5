"""The labels of the ticks are short and different, and all of them are drawn."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from gui.plots.plot.axes import AXIS_WIDTH, Axis
from gui.plots.plot.curve_plot import CurvePlot
from tests.gui.stored_points import stored_points


@pytest.mark.parametrize(
    ("ticks", "labels"),
    [
        ([9876551, 9876552], ["9.876551M", "9.876552M"]),
        ([0.6931, 0.69315, 0.6932], ["0.6931", "0.69315", "0.6932"]),
        ([1e-5, 1.00001e-5], ["1e-5", "1.00001e-5"]),
        ([1e12, 1.0001e12], ["1e12", "1.0001e12"]),
        ([0, 0.25, 0.5], ["0", "0.25", "0.5"]),
        ([0, 5e5, 1e6], ["0", "500k", "1M"]),
        ([-2e-5, 0, 2e-5], ["-2e-5", "0", "2e-5"]),
        ([-0.1, 0.1 * 3 - 0.3, 0.1], ["-0.1", "0", "0.1"]),
        ([7], ["7"]),
    ],
)
def test_labels_have_enough_digits_to_differ(
    qtbot: QtBot, ticks: list[float], labels: list[str]
) -> None:
    assert Axis("bottom").tickStrings(ticks, 1.0, None) == labels


def test_labels_of_a_logarithmic_axis_do_too(qtbot: QtBot) -> None:
    axis = Axis("bottom")
    axis.setLogMode(True, False)
    decades = np.log10([1e-5, 0.2, 1, 2, 5, 200_000, 1e6])
    near = np.log10([0.69311, 0.69312, 0.69313])
    labels = axis.tickStrings(list(decades), 1.0, None)
    assert labels == ["1e-5", "0.2", "1", "2", "5", "200k", "1M"]
    assert axis.tickStrings(list(near), 1.0, None) == ["0.69311", "0.69312", "0.69313"]


def test_a_vertical_axis_is_as_wide_as_its_labels(plot: CurvePlot, qtbot: QtBot) -> None:
    axis = plot.canvas.getAxis("left")
    plot.add_points("train", stored_points(np.arange(10.0), np.linspace(0.0, 1.0, 10)))
    plot.refresh()
    QApplication.processEvents()
    assert axis.width() == AXIS_WIDTH
    plot.canvas.area.setYRange(0.693150, 0.693153, padding=0)
    qtbot.waitUntil(lambda: axis.width() > AXIS_WIDTH)
    plot.canvas.area.setYRange(0, 1, padding=0)
    qtbot.waitUntil(lambda: axis.width() == AXIS_WIDTH)
