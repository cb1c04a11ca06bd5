"""Parallel coordinates: hover, click, brush, keyboard, and many trials."""

from __future__ import annotations

import math

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from engine.sweeps.study import TrialResult
from engine.sweeps.sweep import Sweep
from gui.sweeps.parallel_plot import ParallelPlot
from tests.support.made_sweeps import BASE, RANGES, value_of

SWEEP = Sweep(base=BASE, ranges=dict(RANGES), own_settings=("width",), trials=9)


def trial(number: int, rate: float, width: int = 32, state: str = "finished") -> TrialResult:
    settings = {"learning_rate": rate, "width": width, "optimizer": "sgd"}
    value = value_of(settings) if state == "finished" else None
    return TrialResult(number, str(number + 10), state, settings, value)


TRIALS = (trial(0, 1e-4), trial(1, 1e-3), trial(2, 1e-1, 64), trial(3, 1e-2, 16, "running"))


@pytest.fixture
def plot(qtbot: QtBot) -> ParallelPlot:
    plot = ParallelPlot()
    qtbot.addWidget(plot)
    plot.resize(800, 300)
    plot.show_trials(SWEEP, TRIALS)
    plot.show()
    return plot


def at(plot: ParallelPlot, axis: int, place: float, aside: float = 0.0) -> QPoint:
    return QPoint(round(plot.x_of(axis) + aside), round(plot.y_of(place)))


def test_a_click_opens_the_run_of_a_line(plot: ParallelPlot, qtbot: QtBot) -> None:
    with qtbot.waitSignal(plot.pointed) as pointed:
        QTest.mouseMove(plot, at(plot, 0, 1.0, 12))
    assert pointed.args == [2]
    assert "run 12 · learning_rate 0.1 · width 64" in plot.accessibleName()
    with qtbot.waitSignal(plot.opened) as opened:
        QTest.mouseClick(plot, Qt.MouseButton.LeftButton, pos=at(plot, 0, 1.0, 12))
    assert opened.args == ["12"]


def drag(plot: ParallelPlot, axis: int, first: float, last: float) -> None:
    left = Qt.MouseButton.LeftButton
    QTest.mousePress(plot, left, pos=at(plot, axis, first))
    QTest.mouseMove(plot, at(plot, axis, last))
    QTest.mouseRelease(plot, left, pos=at(plot, axis, last))


def test_a_brush_filters_and_a_click_on_its_axis_removes_it(plot: ParallelPlot) -> None:
    passing: list[object] = []
    plot.brushed.connect(passing.append)
    drag(plot, 0, 0.2, 0.75)
    assert passing[-1] == {1, 3}
    drag(plot, 1, 0.3, 0.6)
    assert passing[-1] == {1}, "both brushes count"
    QTest.mouseClick(plot, Qt.MouseButton.LeftButton, pos=at(plot, 0, 0.5))
    assert passing[-1] == {0, 1}
    plot.setFocus()
    QTest.keyClick(plot, Qt.Key.Key_Escape)
    assert passing[-1] is None


def test_brushes_filter_until_their_sweep_goes(plot: ParallelPlot) -> None:
    plot.brush(3, 0.0, 1.0)
    assert plot.passing().tolist() == [True, True, True, False]
    plot.clear_brushes()
    plot.brush(0, 0.2, 0.75)
    found: list[object] = []
    plot.brushed.connect(found.append)
    plot.show_trials(SWEEP, (*TRIALS, trial(4, 2e-3)))
    assert found == [{1, 3, 4}]
    plot.show_trials(None, ())
    assert found[-1] is None
    plot.grab()


def test_keys_go_along_an_axis_filter_and_open(plot: ParallelPlot, qtbot: QtBot) -> None:
    numbers: list[int] = []
    plot.pointed.connect(numbers.append)
    passing: list[object] = []
    plot.brushed.connect(passing.append)
    for key in (Qt.Key.Key_Up, Qt.Key.Key_Up):
        QTest.keyClick(plot, key)
    assert numbers == [0, 1], "by learning rate"
    QTest.keyClick(plot, Qt.Key.Key_Up, Qt.KeyboardModifier.ShiftModifier)
    assert numbers[-1] == 3
    assert passing == [{1, 3}]
    with qtbot.waitSignal(plot.opened) as opened:
        QTest.keyClick(plot, Qt.Key.Key_Return)
    assert opened.args == ["13"]
    for _ in range(3):
        QTest.keyClick(plot, Qt.Key.Key_Right)
    QTest.keyClick(plot, Qt.Key.Key_Down)
    assert numbers[-1] in (0, 1, 2), "on the axis of the result, only what has one"


def test_a_thousand_trials_are_drawn_once_and_hovered_without_drawing_them_again(
    plot: ParallelPlot, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn: list[int] = []
    honest = ParallelPlot._lines
    monkeypatch.setattr(
        ParallelPlot, "_lines", lambda plot, theme: (drawn.append(1), honest(plot, theme))[1]
    )
    plot.show_trials(SWEEP, [trial(each, 10 ** (-4 + 3 * each / 999)) for each in range(1000)])
    plot.grab()
    for place in range(50):
        QTest.mouseMove(plot, at(plot, 0, place / 50, 20))
        plot.grab()
    assert len(drawn) == 1


def test_odd_results_are_drawn(plot: ParallelPlot) -> None:
    odd = [
        TrialResult(0, "1", "finished", {}, math.inf),
        TrialResult(1, "", "waiting", {"learning_rate": 1e-3}, None),
        TrialResult(2, "3", "failed", {"learning_rate": 1e-3, "width": 99}, None, "It broke."),
    ]
    plot.show_trials(SWEEP, odd)
    plot.grab()
    QTest.mouseMove(plot, at(plot, 0, 1 / 3, 1))
    QTest.mouseClick(plot, Qt.MouseButton.LeftButton, pos=at(plot, 1, 0.5, 30))
