"""One plot under the mouse: the wheel, a drag, a double click, and the position of the mouse."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QMouseEvent, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from gui.plots.plot.curve_plot import CurvePlot
from tests.gui.plots.conftest import in_sight, place_of
from tests.gui.stored_points import stored_points

STEPS = np.arange(100.0)


def wheel(plot: CurvePlot, at: QPoint, key: Qt.KeyboardModifier) -> QWheelEvent:
    canvas = plot.canvas.viewport()
    event = QWheelEvent(
        QPointF(at),
        QPointF(canvas.mapToGlobal(at)),
        QPoint(),
        QPoint(0, 120),
        Qt.MouseButton.NoButton,
        key,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(canvas, event)
    return event


def drag(plot: CurvePlot, start: QPoint, end: QPoint) -> None:
    target = plot.canvas.viewport()
    left = Qt.MouseButton.LeftButton
    QTest.mousePress(target, left, pos=start)
    for part in (0.25, 0.5, 0.75, 1.0):
        QTest.mouseMove(target, start + (end - start) * part)
    QTest.mouseRelease(target, left, pos=end)


def double_click(plot: CurvePlot, at: QPoint) -> None:
    """As real screens send it: QTest presses a third time."""
    canvas, kind = plot.canvas.viewport(), QEvent.Type
    for type in (
        kind.MouseButtonPress,
        kind.MouseButtonRelease,
        kind.MouseButtonDblClick,
        kind.MouseButtonRelease,
    ):
        button = Qt.MouseButton.LeftButton
        held = Qt.MouseButton.NoButton if type is kind.MouseButtonRelease else button
        there, on_screen = QPointF(at), QPointF(canvas.mapToGlobal(at))
        event = QMouseEvent(type, there, on_screen, button, held, Qt.KeyboardModifier.NoModifier)
        QApplication.sendEvent(canvas, event)


def test_it_follows_until_the_wheel_moves_the_view(plot: CurvePlot, qtbot: QtBot) -> None:
    plot.add_points("train", stored_points(STEPS, STEPS))
    plot.refresh()
    assert in_sight(plot)[1] == pytest.approx(102, abs=2)
    plot.add_points("train", stored_points(STEPS + 100, STEPS))
    plot.refresh()
    x0, x1, y0, y1 = in_sight(plot)
    assert x0 < 0
    assert 199 < x1 < 210
    assert y0 < 0
    assert 99 < y1 < 110
    told: list[bool] = []
    plot.viewport.followed.connect(told.append)
    with qtbot.waitSignal(plot.viewport.zoomed) as zoomed:
        wheel(plot, place_of(plot, 50, 50), Qt.KeyboardModifier.ControlModifier)
    assert told == [False]
    assert zoomed.args == list(in_sight(plot)[:2])
    assert plot.refresh()
    held = in_sight(plot)
    assert held[1] - held[0] < x1 - x0
    plot.add_points("train", stored_points(STEPS + 200, STEPS))
    plot.refresh()
    assert in_sight(plot) == held
    plot.viewport.set_follow(True)
    plot.refresh()
    assert in_sight(plot)[1] > 299


def test_the_wheel_alone_is_left_to_the_panel_behind(plot: CurvePlot) -> None:
    plot.add_points("train", stored_points(STEPS, STEPS))
    plot.refresh()
    before = in_sight(plot)
    event = wheel(plot, place_of(plot, 50, 50), Qt.KeyboardModifier.NoModifier)
    assert in_sight(plot) == before
    assert not event.isAccepted()


def test_a_drag_zooms_and_a_double_click_shows_everything(plot: CurvePlot, qtbot: QtBot) -> None:
    plot.add_points("train", stored_points(STEPS, STEPS))
    plot.refresh()
    everything = in_sight(plot)
    QApplication.processEvents()
    with qtbot.waitSignal(plot.viewport.followed):
        drag(plot, place_of(plot, 20, 80), place_of(plot, 60, 30))
    plot.refresh()
    assert in_sight(plot) == pytest.approx((20, 60, 30, 80), abs=2)
    with qtbot.waitSignal(plot.viewport.fitted):
        double_click(plot, place_of(plot, 40, 50))
    plot.refresh()
    assert in_sight(plot) == pytest.approx(everything)


def test_the_mouse_signals_the_position_below_it(plot: CurvePlot, qtbot: QtBot) -> None:
    plot.add_points("train", stored_points(STEPS, STEPS))
    plot.refresh()
    QApplication.processEvents()
    with qtbot.waitSignal(plot.canvas.hovered) as heard:
        QTest.mouseMove(plot.canvas.viewport(), place_of(plot, 40, 50))
    assert heard.args[0] == pytest.approx(40, abs=1)
    with qtbot.waitSignal(plot.canvas.hovered) as heard:
        QApplication.sendEvent(plot.canvas, QEvent(QEvent.Type.Leave))
    assert heard.args == [None]
