"""Plots by keyboard, and what the bar remembers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PySide6.QtCore import QSettings, Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMainWindow, QSplitter
from pytestqt.qtbot import QtBot

from gui.compare.comparison_plots import ComparisonPlots
from gui.plots.data.x_axis import XKind
from gui.plots.panel.keyboard import PlotKeys
from gui.plots.panel.run_plots import PlotGrid
from gui.style.theme import DARK
from gui.window.shortcuts import shortcuts
from tests.gui.points import points_of

KEYS = Qt.Key
CTRL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def settings(tmp_path: Path) -> QSettings:
    return QSettings(str(tmp_path / "s.ini"), QSettings.Format.IniFormat)


def shown(grid: PlotGrid, title: str = "Loss") -> tuple[float, float]:
    for _ in range(2 * len(grid.plots())):
        grid.tick()
    first, last = grid.plot(title).canvas.area.viewRange()[0]
    return float(first), float(last)


def focus(grid: PlotGrid, qtbot: QtBot) -> None:
    PlotKeys([grid], grid)
    grid.add_points("train/loss", points_of(np.arange(101.0), np.arange(101.0)))
    grid.activateWindow()
    QApplication.processEvents()
    canvas = grid.plot("Loss").canvas
    canvas.setFocus(Qt.FocusReason.TabFocusReason)
    qtbot.waitUntil(canvas.hasFocus)


def test_a_plot_is_reached_by_tab_and_says_that_it_has_the_keys(
    grid: PlotGrid, qtbot: QtBot
) -> None:
    focus(grid, qtbot)
    plot = grid.plot("Loss")
    assert plot.canvas.focusPolicy() & Qt.FocusPolicy.TabFocus
    assert plot.property("focused") is True
    assert "arrow keys" in plot.canvas.accessibleDescription()
    grid.bar.slider.setFocus()
    assert plot.property("focused") is False


def test_tab_goes_through_the_plots_as_they_stand(grid: PlotGrid, qtbot: QtBot) -> None:
    for series in ("train/loss", "device/a/memory", "validation/accuracy", "train/learning_rate"):
        grid.add_points(series, points_of(np.arange(101.0), np.arange(101.0)))
    grid.placement.move("Device memory", "Loss")
    grid.activateWindow()
    QApplication.processEvents()
    first = grid.plots()[0]
    first.legend.chip("a").setFocus()
    seen = []
    for _ in range(5 * len(grid.plots())):
        focused = QApplication.focusWidget()
        seen += [plot.title for plot in grid.plots() if plot.canvas is focused]
        QTest.keyClick(focused, KEYS.Key_Tab)
    titles = [plot.title for plot in grid.plots() if len(plot.curve_names())]
    assert titles == ["Device memory", "Loss", "Accuracy", "Learning rate"]
    assert seen[: len(titles)] == titles


def test_keys_zoom_pan_and_fit_the_focused_plot(grid: PlotGrid, qtbot: QtBot) -> None:
    focus(grid, qtbot)
    canvas, before = grid.plot("Loss").canvas, shown(grid)
    QTest.keyClick(canvas, KEYS.Key_Plus)
    zoomed = shown(grid)
    assert zoomed[1] - zoomed[0] == pytest.approx(0.7 * (before[1] - before[0]))
    assert sum(zoomed) == pytest.approx(sum(before))
    assert not grid.bar.follow.isChecked()
    QTest.keyClick(canvas, KEYS.Key_Right, CTRL)
    assert shown(grid)[0] - zoomed[0] == pytest.approx(0.2 * (zoomed[1] - zoomed[0]))
    assert shown(grid, "Device memory") == pytest.approx(shown(grid)), "they are linked"
    QTest.keyClick(canvas, KEYS.Key_Left, CTRL)
    QTest.keyClick(canvas, KEYS.Key_Minus)
    assert shown(grid) == pytest.approx(before)
    values = canvas.area.viewRange()[1]
    QTest.keyClick(canvas, KEYS.Key_Up, CTRL)
    assert canvas.area.viewRange()[1][0] > values[0]
    QTest.keyClick(canvas, KEYS.Key_Down, CTRL)
    assert canvas.area.viewRange()[1] == pytest.approx(values)
    QTest.keyClick(canvas, KEYS.Key_Plus, CTRL)
    low, high = canvas.area.viewRange()[1]
    assert high - low == pytest.approx(0.7 * (values[1] - values[0]))
    assert canvas.area.viewRange()[0] == pytest.approx(before), "the places are as they were"
    QTest.keyClick(canvas, KEYS.Key_Minus, CTRL)
    assert canvas.area.viewRange()[1] == pytest.approx(values)


def test_the_arrows_still_move_the_slider(grid: PlotGrid, qtbot: QtBot) -> None:
    focus(grid, qtbot)
    before, value = shown(grid), grid.bar.slider.value()
    grid.bar.slider.setFocus()
    QTest.keyClick(grid.bar.slider, KEYS.Key_Right)
    assert grid.bar.slider.value() > value
    assert shown(grid) == before


def test_the_list_of_shortcuts_names_the_keys_of_plots(grid: PlotGrid, qtbot: QtBot) -> None:
    window, compared = QMainWindow(), ComparisonPlots(DARK)
    qtbot.addWidget(window)
    both = QSplitter()
    both.addWidget(grid)
    both.addWidget(compared)
    window.setCentralWidget(both)
    PlotKeys([grid, compared], window)
    found = dict(shortcuts(window))
    assert [what for _, what in found["Plots"]].count("Zoom in") == 1
    grid.setParent(None)


def test_the_bar_is_found_as_it_was_left(settings: QSettings, qtbot: QtBot) -> None:
    first = PlotGrid(DARK, settings)
    qtbot.addWidget(first)
    first.bar.slider.setValue(333)
    first.bar.x_buttons[XKind.WALL].click()
    for button in (first.bar.markers, first.bar.raw, first.bar.log_y, first.bar.link_x):
        button.click()
    settings.sync()
    second = PlotGrid(DARK, QSettings(settings.fileName(), QSettings.Format.IniFormat))
    qtbot.addWidget(second)
    bar = second.bar
    assert (bar.smoothing, bar.x_kind) == (0.333, XKind.WALL)
    switches = (bar.markers, bar.raw, bar.log_y, bar.link_x, bar.follow)
    assert [button.isChecked() for button in switches] == [False, False, True, False, True]
    assert second.plot("Loss").canvas.log_y
    second.reset_layout()
    third = PlotGrid(DARK, QSettings(settings.fileName(), QSettings.Format.IniFormat))
    qtbot.addWidget(third)
    for bar in (second.bar, third.bar):
        assert (bar.smoothing, bar.x_kind) == (0.9, XKind.STEP)
        switches = (bar.markers, bar.raw, bar.log_y, bar.link_x, bar.follow)
        assert [button.isChecked() for button in switches] == [True, True, False, True, True]


def test_a_zoom_is_no_choice_for_the_next_time(settings: QSettings, qtbot: QtBot) -> None:
    first = PlotGrid(DARK, settings)
    qtbot.addWidget(first)
    first.plot("Loss").canvas.zoom_x(0.5)
    assert not first.bar.follow.isChecked()
    second = PlotGrid(DARK, settings)
    qtbot.addWidget(second)
    assert second.bar.follow.isChecked()


@pytest.mark.parametrize("word", ["", "none", "nan", "1e999", "7", "-3"])
def test_what_nobody_wrote_is_no_smoothing(settings: QSettings, qtbot: QtBot, word: str) -> None:
    settings.setValue("plots/smoothing", word)
    settings.setValue("plots/x_axis", word)
    settings.setValue("plots/raw", word)
    grid = PlotGrid(DARK, settings)
    qtbot.addWidget(grid)
    assert 0 <= grid.bar.smoothing < 1
    assert grid.bar.x_kind is XKind.STEP
    assert grid.bar.raw.isChecked()
