"""Plots that are moved, hidden and enlarged; the order is stored."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, QSettings, Qt
from PySide6.QtGui import QDragMoveEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from gui.plots.panel.keyboard import PlotKeys
from gui.plots.panel.run_plots import RunPlots
from gui.plots.panel.visibility import PlotOrder
from gui.plots.plot.header import DRAGGED
from gui.plots.plot.menu import PlotAction
from gui.style.theme import DARK
from gui.widgets.panel_settings import PanelSettings
from tests.gui.stored_points import stored_points

STEPS = np.arange(1.0, 11.0)


@pytest.fixture
def settings(tmp_path: Path) -> QSettings:
    return QSettings(str(tmp_path / "s.ini"), QSettings.Format.IniFormat)


def order(run_plots: RunPlots) -> list[str]:
    """Titles of the visible plots, row by row."""
    QApplication.processEvents()
    seen = [plot for plot in run_plots.plots() if plot.isVisible()]
    return [plot.title for plot in sorted(seen, key=lambda plot: (plot.y(), plot.x()))]


def ask(run_plots: RunPlots, title: str, action: PlotAction) -> None:
    run_plots.plot(title).header.menu.entries[action].trigger()


def test_the_menu_moves_and_hides_a_plot(run_plots: RunPlots) -> None:
    ask(run_plots, "Device utilisation", PlotAction.EARLIER)
    assert order(run_plots) == ["Loss", "Device utilisation", "Device memory"]
    ask(run_plots, "Device memory", PlotAction.LATER)
    ask(run_plots, "Loss", PlotAction.EARLIER)
    assert order(run_plots) == ["Loss", "Device utilisation", "Device memory"]
    run_plots.visibility.reset()
    ask(run_plots, "Device memory", PlotAction.HIDE)
    assert order(run_plots) == ["Loss", "Device utilisation"]
    run_plots.toolbar.plots_menu.aboutToShow.emit()
    (entry,) = (
        each for each in run_plots.toolbar.plots_menu.actions() if each.text() == "Device memory"
    )
    assert not entry.isChecked()
    entry.trigger()
    assert order(run_plots) == ["Loss", "Device memory", "Device utilisation"]


def test_an_enlarged_plot_is_alone_until_escape_or_another_run(run_plots: RunPlots) -> None:
    PlotKeys([run_plots], run_plots)
    run_plots.add_points("train/learning_rate", stored_points(STEPS, STEPS))
    title = run_plots.plot("Learning rate").header.title
    QTest.mouseDClick(title, Qt.MouseButton.LeftButton)
    assert order(run_plots) == ["Learning rate"]
    assert run_plots.plot("Learning rate").height() > 400
    run_plots.activateWindow()
    QTest.keyClick(run_plots, Qt.Key.Key_Escape)
    assert order(run_plots) == ["Loss", "Device memory", "Device utilisation", "Learning rate"]
    assert run_plots.plot("Learning rate").height() < run_plots.plot("Loss").height()
    ask(run_plots, "Loss", PlotAction.ENLARGE)
    run_plots.clear()
    assert len(order(run_plots)) == 3


def drop(run_plots: RunPlots, title: str, onto: str) -> bool:
    panel = run_plots.visibility.grid
    data = QMimeData()
    data.setData(DRAGGED, title.encode())
    place = run_plots.plot(onto).mapTo(panel, QPoint(20, 20))
    move, left, key = Qt.DropAction.MoveAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier
    over = QDragMoveEvent(place, move, data, left, key.NoModifier)
    panel.dragMoveEvent(over)
    panel.dropEvent(QDropEvent(QPointF(place), move, data, left, key.NoModifier))
    return over.isAccepted()


def test_a_plot_is_dropped_on_any_other_one_and_takes_its_place(run_plots: RunPlots) -> None:
    run_plots.add_points("train/learning_rate", stored_points(STEPS, STEPS))
    QApplication.processEvents()
    assert drop(run_plots, "Device memory", "Loss")
    assert order(run_plots)[:3] == ["Device memory", "Loss", "Device utilisation"]
    assert drop(run_plots, "Learning rate", "Loss")
    assert order(run_plots)[:3] == ["Device memory", "Learning rate", "Loss"]
    assert run_plots.plot("Learning rate").geometry().top() == 0
    assert not drop(run_plots, "Loss", "Loss")


def test_an_arrangement_of_an_older_version_is_kept(settings: QSettings, qtbot: QtBot) -> None:
    """It was stored when small plots had places of their own below the others."""
    settings.setValue("plots/order", ["Device memory", "Loss", "Device utilisation", "Step time"])
    settings.setValue("plots/hidden", ["Device utilisation", "Device power"])
    opened = RunPlots(DARK, settings)
    qtbot.addWidget(opened)
    opened.resize(900, 600)
    opened.show()
    learns = "train/loss", "validation/accuracy", "rank/0/compute_share"
    for series in ("device/cpu/memory", "device/cpu/utilisation", "device/cpu/power", *learns):
        opened.add_points(series, stored_points(STEPS, STEPS))
    assert order(opened) == ["Device memory", "Loss", "Accuracy", "Step time"]


def test_the_layout_is_found_again_by_another_window(settings: QSettings, qtbot: QtBot) -> None:
    first = RunPlots(DARK, settings)
    qtbot.addWidget(first)
    first.resize(900, 600)
    first.show()
    ask(first, "Device utilisation", PlotAction.EARLIER)
    ask(first, "Device utilisation", PlotAction.EARLIER)
    ask(first, "Device memory", PlotAction.HIDE)
    settings.sync()
    second = RunPlots(DARK, QSettings(settings.fileName(), QSettings.Format.IniFormat))
    qtbot.addWidget(second)
    second.resize(900, 600)
    second.show()
    assert order(second) == ["Device utilisation", "Loss"]
    second.visibility.reset()
    assert order(second) == ["Loss", "Device memory", "Device utilisation"]


def test_a_plot_that_was_never_moved_follows_its_natural_neighbour() -> None:
    layout = PlotOrder(PanelSettings(None, "plots"))
    layout.move("C", "A", ["A", "B", "C"])
    assert layout.sorted_titles(["A", "B", "C"]) == ["C", "A", "B"]
    assert layout.sorted_titles(["A", "A2", "B", "C"]) == ["C", "A", "A2", "B"]
    assert layout.sorted_titles(["0", "A", "B"]) == ["0", "A", "B"]
    layout.move("B", "A", ["A", "B"])  # a run without C
    assert layout.sorted_titles(["A", "B", "C"]) == ["C", "B", "A"]


def test_a_metric_that_is_called_like_another_plot_has_its_own(run_plots: RunPlots) -> None:
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
        run_plots.add_points(
            f"validation/{title.replace(' ', '_').lower()}", stored_points(STEPS, STEPS)
        )
        run_plots.add_points(series, stored_points(STEPS, STEPS))
    run_plots.add_points("validation/Loss", stored_points(STEPS, STEPS))
    assert len(run_plots.plots()) == 21
    assert list(run_plots.plot("Throughput (metric)").curves) == ["val"]
    assert list(run_plots.plot("Step time by rank").curves) == ["data 0"]
    assert "val" not in run_plots.plot("Step time").curves
    assert list(run_plots.plot("Step time (metric)").curves) == ["val"]
