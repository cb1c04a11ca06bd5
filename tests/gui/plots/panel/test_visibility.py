"""Plots that are moved, hidden, enlarged, and found again where they were left."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, QSettings, Qt
from PySide6.QtGui import QDragMoveEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from gui.compare.comparison_kinds import place
from gui.plots.panel.keyboard import PlotKeys
from gui.plots.panel.layout_order import PlotLayout
from gui.plots.panel.panel_settings import Kept
from gui.plots.panel.run_plots import PlotGrid
from gui.plots.plot.header import DRAGGED
from gui.plots.plot.menu import PlotAction
from gui.style.theme import DARK
from tests.gui.points import points_of

STEPS = np.arange(1.0, 11.0)


@pytest.fixture
def settings(tmp_path: Path) -> QSettings:
    return QSettings(str(tmp_path / "s.ini"), QSettings.Format.IniFormat)


def order(grid: PlotGrid) -> list[str]:
    """What is seen, row by row."""
    QApplication.processEvents()
    seen = [plot for plot in grid.plots() if plot.isVisible()]
    return [plot.title for plot in sorted(seen, key=lambda plot: (plot.y(), plot.x()))]


def ask(grid: PlotGrid, title: str, action: PlotAction) -> None:
    grid.plot(title).header.menu.entries[action].trigger()


def test_the_menu_moves_a_plot_and_stops_at_the_ends(grid: PlotGrid) -> None:
    ask(grid, "Device memory", PlotAction.EARLIER)
    assert order(grid) == ["Loss", "Device memory", "Device utilisation"]
    ask(grid, "Device utilisation", PlotAction.LATER)
    ask(grid, "Loss", PlotAction.EARLIER)
    assert order(grid) == ["Loss", "Device memory", "Device utilisation"]


def test_a_hidden_plot_is_found_in_the_bars_menu(grid: PlotGrid) -> None:
    ask(grid, "Device memory", PlotAction.HIDE)
    assert order(grid) == ["Loss", "Device utilisation"]
    grid.bar.plots_menu.aboutToShow.emit()
    (entry,) = (each for each in grid.bar.plots_menu.actions() if each.text() == "Device memory")
    assert not entry.isChecked()
    entry.trigger()
    assert order(grid) == ["Loss", "Device utilisation", "Device memory"]


def test_an_enlarged_plot_is_alone_until_escape(grid: PlotGrid) -> None:
    PlotKeys([grid], grid)
    grid.add_points("train/learning_rate", points_of(STEPS, STEPS))
    title = grid.plot("Learning rate").header.title
    QTest.mouseDClick(title, Qt.MouseButton.LeftButton)
    assert order(grid) == ["Learning rate"]
    assert grid.plot("Learning rate").height() > 400
    grid.activateWindow()
    QTest.keyClick(grid, Qt.Key.Key_Escape)
    assert order(grid) == ["Loss", "Device utilisation", "Device memory", "Learning rate"]
    assert grid.plot("Learning rate").height() == 170


def test_another_run_is_not_seen_through_an_enlarged_plot(grid: PlotGrid) -> None:
    ask(grid, "Loss", PlotAction.ENLARGE)
    grid.clear()
    assert len(order(grid)) == 3


def drop(grid: PlotGrid, title: str, onto: str) -> bool:
    panel = grid.placement.panel
    data = QMimeData()
    data.setData(DRAGGED, title.encode())
    place = grid.plot(onto).mapTo(panel, QPoint(20, 20))
    move, left, key = Qt.DropAction.MoveAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier
    over = QDragMoveEvent(place, move, data, left, key.NoModifier)
    panel.dragMoveEvent(over)
    panel.dropEvent(QDropEvent(QPointF(place), move, data, left, key.NoModifier))
    return over.isAccepted()


def test_a_plot_is_dropped_on_another_of_its_group(grid: PlotGrid) -> None:
    grid.add_points("train/learning_rate", points_of(STEPS, STEPS))
    QApplication.processEvents()
    assert drop(grid, "Device memory", "Loss")
    assert order(grid)[:3] == ["Device memory", "Loss", "Device utilisation"]
    assert not drop(grid, "Learning rate", "Loss")
    assert order(grid)[-1] == "Learning rate"


def test_the_layout_is_found_again_by_another_window(settings: QSettings, qtbot: QtBot) -> None:
    first = PlotGrid(DARK, settings)
    qtbot.addWidget(first)
    first.resize(900, 600)
    first.show()
    ask(first, "Device utilisation", PlotAction.EARLIER)
    ask(first, "Device memory", PlotAction.HIDE)
    settings.sync()
    second = PlotGrid(DARK, QSettings(settings.fileName(), QSettings.Format.IniFormat))
    qtbot.addWidget(second)
    second.resize(900, 600)
    second.show()
    assert order(second) == ["Device utilisation", "Loss"]
    second.placement.reset()
    assert order(second) == ["Loss", "Device utilisation", "Device memory"]


def test_a_plot_that_was_never_moved_stands_behind_its_natural_neighbour() -> None:
    layout = PlotLayout(Kept(None, "plots"))
    layout.move("C", "A", ["A", "B", "C"])
    assert layout.arranged(["A", "B", "C"]) == ["C", "A", "B"]
    assert layout.arranged(["A", "A2", "B", "C"]) == ["C", "A", "A2", "B"]
    assert layout.arranged(["0", "A", "B"]) == ["0", "A", "B"]
    layout.move("B", "A", ["A", "B"])  # a run without C
    assert layout.arranged(["A", "B", "C"]) == ["C", "B", "A"]


def test_a_metric_that_is_called_like_another_plot_has_its_own(qtbot: QtBot) -> None:
    grid = PlotGrid(DARK, throughput=True)
    qtbot.addWidget(grid)
    own = {
        "Learning rate": "train/learning_rate",
        "Gradient norm": "train/gradient_norm",
        "Throughput": "train/samples_per_second",
        "Step time": "rank/0/data_share",
        "Worker memory": "rank/0/memory_allocated",
        "Device memory": "device/a/memory",
        "Device utilisation": "device/a/utilisation",
        "Device temperature": "device/a/temperature",
        "Device power": "device/a/power",
    }
    for title, series in own.items():
        grid.add_points(f"validation/{title.replace(' ', '_').lower()}", points_of(STEPS, STEPS))
        grid.add_points(series, points_of(STEPS, STEPS))
    grid.add_points("validation/Loss", points_of(STEPS, STEPS))
    assert len(grid.plots()) == 20
    assert grid.plot("Step time").curve_names() == ["data 0"]
    assert grid.plot("Step time (metric)").curve_names() == ["val"]


def test_a_comparison_tells_such_metrics_from_the_losses() -> None:
    losses = ("train/loss", "validation/loss")
    metrics = ("validation/training_loss", "validation/validation_loss")
    places = [place(series) for series in losses + metrics]
    assert len({each.plot.title for each in places if each}) == 4
