"""Fixtures of the plots' tests: plots on the screen, and how to see what they show."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from PySide6.QtCore import QPoint, QPointF
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from gui.plots.panel.run_plots import RunPlots
from gui.plots.plot.curve_plot import CurvePlot
from gui.style.theme import DARK
from tests.support.pixels import count_colour

Inked = Callable[[QWidget, str], int]


@pytest.fixture
def plot(qtbot: QtBot) -> CurvePlot:
    made = CurvePlot("Loss", unit="nats", value_format=".2f", theme=DARK)
    qtbot.addWidget(made)
    made.resize(460, 260)
    made.show()
    return made


@pytest.fixture
def run_plots(qtbot: QtBot) -> Iterator[RunPlots]:
    """Empty plots on the screen; the pointer is left in none."""
    made = RunPlots(DARK)
    qtbot.addWidget(made)
    made.resize(1000, 700)
    made.show()
    QApplication.processEvents()
    yield made
    QTest.mouseMove(made, QPoint(1, 1))


@pytest.fixture
def inked(qapp: QApplication) -> Inked:
    """Counts the pixels of a widget that have (nearly) one colour."""

    def count(widget: QWidget, colour: str) -> int:
        qapp.processEvents()
        return count_colour(widget.grab().toImage(), colour, less_than=24)

    return count


def in_sight(plot: CurvePlot) -> tuple[float, float, float, float]:
    (x0, x1), (y0, y1) = plot.canvas.area.viewRange()
    return x0, x1, y0, y1


def place_of(plot: CurvePlot, step: float, value: float) -> QPoint:
    scene = plot.canvas.area.mapViewToScene(QPointF(step, value))
    position: QPoint = plot.canvas.mapFromScene(scene)
    return position


def read_out(plot: CurvePlot) -> str:
    """What the legend says: the names of the curves with their values."""
    chips = (plot.legend.chip(name) for name in plot.legend.names())
    return ", ".join(chip.read_out for chip in chips)


def has_crosshair(plot: CurvePlot) -> bool:
    return bool(plot.canvas.crosshair.isVisible())


def paint(run_plots: RunPlots) -> None:
    QApplication.processEvents()  # a new plot is laid out
    for _ in range(2 * len(run_plots.plots())):
        run_plots.tick()


def titles(run_plots: RunPlots) -> list[str]:
    return [plot.title for plot in run_plots.plots()]
