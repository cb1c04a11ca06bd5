"""Fixtures of the comparison's tests: the comparison, and the chosen runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from engine.runs.run_index import RunIndex
from gui.bridge.background import Background
from gui.compare.comparison import Comparison
from gui.run_list.chosen_runs import ChosenRuns
from gui.style.theme import ThemeController


class View(NamedTuple):
    """The comparison, and the chosen runs."""

    chosen: ChosenRuns
    comparison: Comparison

    def compare(self, *run_ids: str) -> None:
        self.comparison.show_runs(RunIndex().runs())
        self.chosen.choose(run_ids)
        self.read()

    def read(self) -> None:
        """Wait until everything that the stores hold is drawn."""
        self.settle()  # what is being read now may lack the newest points
        self.comparison.poll()
        self.settle()

    def settle(self) -> None:
        deadline = time.monotonic() + 60.0
        while self.comparison.is_reading:
            assert time.monotonic() < deadline
            QApplication.processEvents()


@pytest.fixture
def view(qtbot: QtBot, qapp: QApplication) -> Iterator[View]:
    chosen = ChosenRuns()
    background = Background()
    comparison = Comparison(chosen, background, ThemeController(qapp).current)
    qtbot.addWidget(comparison)
    comparison.resize(900, 700)
    comparison.show()
    yield View(chosen, comparison)
    comparison.hide()
    background.finish()


def curves(view: View, title: str) -> dict[str, Any]:
    view.read()
    plot = view.comparison.plots.plot(title)
    return {name: plot.curves[name] for name in list(plot.curves)}


def cells(view: View) -> dict[str, list[str]]:
    view.read()
    model = view.comparison.table.model()
    found = {}
    for row in range(model.rowCount()):
        texts = [str(model.index(row, each).data()) for each in range(model.columnCount())]
        found[texts[0]] = texts[1:]
    return found


def begin_live(record: Callable[..., Any]) -> None:
    """A run with two plots."""
    live = record()
    live.begin()
    for series in ("train/loss", "validation/loss"):
        live.add_points(series, [10, 20, 30])


def zoomed_in(view: View) -> tuple[list[float], list[float]]:
    """The visible range of the first plot after a zoom by hand."""
    view.comparison.plots.plot("Val loss").canvas.zoom_x(0.5)
    return in_sight(view)


def in_sight(view: View) -> tuple[list[float], list[float]]:
    view.read()
    QApplication.processEvents()
    plots = view.comparison.plots
    for _ in range(2 * len(plots.plots())):
        plots.tick()
    places, values = plots.plot("Val loss").canvas.area.viewRange()
    return places, values
