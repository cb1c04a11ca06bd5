"""The keys of the plots, and the stored state of the toolbar."""

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
from gui.plots.panel.run_plots import RunPlots
from gui.style.theme import DARK
from gui.window.shortcuts import shortcuts
from tests.gui.stored_points import stored_points

KEYS = Qt.Key
CTRL = Qt.KeyboardModifier.ControlModifier


@pytest.fixture
def settings(tmp_path: Path) -> QSettings:
    return QSettings(str(tmp_path / "s.ini"), QSettings.Format.IniFormat)


def shown(run_plots: RunPlots, title: str = "Loss") -> tuple[float, float]:
    for _ in range(2 * len(run_plots.plots())):
        run_plots.tick()
    first, last = run_plots.plot(title).canvas.area.viewRange()[0]
    return float(first), float(last)


def focus(run_plots: RunPlots, qtbot: QtBot) -> None:
    PlotKeys([run_plots], run_plots)
    run_plots.add_points("train/loss", stored_points(np.arange(101.0), np.arange(101.0)))
    run_plots.activateWindow()
    QApplication.processEvents()
    canvas = run_plots.plot("Loss").canvas
    canvas.setFocus(Qt.FocusReason.TabFocusReason)
    qtbot.waitUntil(canvas.hasFocus)
    QApplication.processEvents()
    run_plots.set_crosshair_x(None)  # the pointer of another test may stand over a plot


def test_a_plot_is_reached_by_tab_shows_its_focus_and_leaves_the_slider_its_arrows(
    run_plots: RunPlots, qtbot: QtBot
) -> None:
    focus(run_plots, qtbot)
    plot = run_plots.plot("Loss")
    assert plot.canvas.focusPolicy() & Qt.FocusPolicy.TabFocus
    assert plot.property("focused") is True
    assert "arrow keys" in plot.canvas.accessibleDescription()
    run_plots.toolbar.slider.setFocus()
    assert plot.property("focused") is False
    before, value = shown(run_plots), run_plots.toolbar.slider.value()
    run_plots.toolbar.slider.setFocus()
    QTest.keyClick(run_plots.toolbar.slider, KEYS.Key_Right)
    assert run_plots.toolbar.slider.value() > value
    assert shown(run_plots) == before


def test_tab_visits_the_plots_in_their_visible_order(run_plots: RunPlots, qtbot: QtBot) -> None:
    for series in ("train/loss", "device/a/memory", "validation/accuracy", "train/learning_rate"):
        run_plots.add_points(series, stored_points(np.arange(101.0), np.arange(101.0)))
    run_plots.visibility.move("Device memory", "Loss")
    run_plots.activateWindow()
    QApplication.processEvents()
    first = run_plots.plots()[0]
    first.legend.chip("a").setFocus()
    seen = []
    for _ in range(5 * len(run_plots.plots())):
        focused = QApplication.focusWidget()
        seen += [plot.title for plot in run_plots.plots() if plot.canvas is focused]
        QTest.keyClick(focused, KEYS.Key_Tab)
    titles = [plot.title for plot in run_plots.plots() if len(list(plot.curves))]
    assert titles == ["Device memory", "Loss", "Accuracy", "Learning rate"]
    assert seen[: len(titles)] == titles


def test_keys_zoom_pan_and_fit_the_focused_plot(run_plots: RunPlots, qtbot: QtBot) -> None:
    focus(run_plots, qtbot)
    canvas, before = run_plots.plot("Loss").canvas, shown(run_plots)
    QTest.keyClick(canvas, KEYS.Key_Plus)
    zoomed = shown(run_plots)
    assert zoomed[1] - zoomed[0] == pytest.approx(0.7 * (before[1] - before[0]))
    assert sum(zoomed) == pytest.approx(sum(before))
    assert not run_plots.toolbar.follow.isChecked()
    QTest.keyClick(canvas, KEYS.Key_Right, CTRL)
    assert shown(run_plots)[0] - zoomed[0] == pytest.approx(0.2 * (zoomed[1] - zoomed[0]))
    assert shown(run_plots, "Device memory") == pytest.approx(shown(run_plots)), "they are linked"
    QTest.keyClick(canvas, KEYS.Key_Left, CTRL)
    QTest.keyClick(canvas, KEYS.Key_Minus)
    assert shown(run_plots) == pytest.approx(before)
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


def test_the_list_of_shortcuts_names_the_keys_of_plots(run_plots: RunPlots, qtbot: QtBot) -> None:
    window, compared = QMainWindow(), ComparisonPlots(DARK)
    qtbot.addWidget(window)
    both = QSplitter()
    both.addWidget(run_plots)
    both.addWidget(compared)
    window.setCentralWidget(both)
    PlotKeys([run_plots, compared], window)
    found = dict(shortcuts(window, ()))
    assert [what for _, what in found["Plots"]].count("Zoom in") == 1
    run_plots.setParent(None)


def test_the_bar_is_found_as_it_was_left(settings: QSettings, qtbot: QtBot) -> None:
    first = RunPlots(DARK, settings)
    qtbot.addWidget(first)
    first.toolbar.slider.setValue(333)
    first.toolbar.x_buttons[XKind.WALL].click()
    for button in (
        first.toolbar.markers,
        first.toolbar.raw,
        first.toolbar.log_y,
        first.toolbar.link_x,
    ):
        button.click()
    settings.sync()
    second = RunPlots(DARK, QSettings(settings.fileName(), QSettings.Format.IniFormat))
    qtbot.addWidget(second)
    bar = second.toolbar
    assert (bar.smoothing, bar.x_kind) == (0.333, XKind.WALL)
    switches = (bar.markers, bar.raw, bar.log_y, bar.link_x, bar.follow)
    assert [button.isChecked() for button in switches] == [False, False, True, False, True]
    assert second.plot("Loss").canvas.log_y
    second.reset_layout()
    third = RunPlots(DARK, QSettings(settings.fileName(), QSettings.Format.IniFormat))
    qtbot.addWidget(third)
    for bar in (second.toolbar, third.toolbar):
        assert (bar.smoothing, bar.x_kind) == (0.0, XKind.STEP)
        switches = (bar.markers, bar.raw, bar.log_y, bar.link_x, bar.follow)
        assert [button.isChecked() for button in switches] == [True, True, False, True, True]


def test_a_zoom_is_no_choice_for_the_next_time(settings: QSettings, qtbot: QtBot) -> None:
    first = RunPlots(DARK, settings)
    qtbot.addWidget(first)
    first.plot("Loss").canvas.zoom_x(0.5)
    assert not first.toolbar.follow.isChecked()
    second = RunPlots(DARK, settings)
    qtbot.addWidget(second)
    assert second.toolbar.follow.isChecked()


@pytest.mark.parametrize("word", ["", "none", "nan", "1e999", "7", "-3"])
def test_damaged_settings_change_nothing(settings: QSettings, qtbot: QtBot, word: str) -> None:
    settings.setValue("plots/smoothing", word)
    settings.setValue("plots/x_axis", word)
    settings.setValue("plots/raw", word)
    run_plots = RunPlots(DARK, settings)
    qtbot.addWidget(run_plots)
    assert 0 <= run_plots.toolbar.smoothing < 1
    assert run_plots.toolbar.x_kind is XKind.STEP
    assert run_plots.toolbar.raw.isChecked()


def test_enter_asks_what_made_the_step_at_the_crosshair(run_plots: RunPlots, qtbot: QtBot) -> None:
    focus(run_plots, qtbot)
    shown(run_plots)
    canvas = run_plots.plot("Loss").canvas
    QTest.keyClick(canvas, KEYS.Key_End)
    with qtbot.waitSignal(run_plots.step_chosen) as chosen:
        QTest.keyClick(canvas, KEYS.Key_Return)
    assert chosen.args == [100]
