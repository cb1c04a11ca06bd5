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
from gui.style.theme import DARK
from tests.gui.plots.conftest import in_sight, place_of
from tests.gui.stored_points import stored_points

STEPS = np.arange(100.0)
MIDDLE = Qt.MouseButton.MiddleButton


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


def drag(
    plot: CurvePlot,
    start: QPoint,
    end: QPoint,
    key: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier,
    button: Qt.MouseButton = Qt.MouseButton.LeftButton,
) -> None:
    """QTest's moves hold no button."""
    canvas, kind = plot.canvas.viewport(), QEvent.Type
    places = [start, *(start + (end - start) * part for part in (0.25, 0.5, 0.75, 1.0)), end]
    types = [kind.MouseButtonPress, *[kind.MouseMove] * 4, kind.MouseButtonRelease]
    for type, at in zip(types, places, strict=True):
        cause = Qt.MouseButton.NoButton if type is kind.MouseMove else button
        held = Qt.MouseButton.NoButton if type is kind.MouseButtonRelease else button
        there, on_screen = QPointF(at), QPointF(canvas.mapToGlobal(at))
        plot.canvas.scene()._lastMoveEventTime = 0  # pyqtgraph leaves out moves of one moment
        QApplication.sendEvent(canvas, QMouseEvent(type, there, on_screen, cause, held, key))


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


def falling(plot: CurvePlot) -> None:
    """A curve that falls from 1000 to 0: of its end nothing is seen between 0 and 1000."""
    plot.add_points("train", stored_points(STEPS, 1000.0 * 0.9**STEPS))
    plot.refresh()
    QApplication.processEvents()


def test_a_drag_zooms_and_a_double_click_shows_all(plot: CurvePlot, qtbot: QtBot) -> None:
    falling(plot)
    everything = in_sight(plot)
    with qtbot.waitSignal(plot.viewport.followed):
        drag(plot, place_of(plot, 20, 800), place_of(plot, 60, 700))
    plot.refresh()
    x0, x1, y0, y1 = in_sight(plot)
    assert (x0, x1) == pytest.approx((20, 60), abs=2)
    assert 1000 * 0.9**x0 <= y1 < 1.2 * 1000 * 0.9**x0, "the curve stays in sight, and fills it"
    assert -30 < y0 < 1000 * 0.9**x1
    with qtbot.waitSignal(plot.viewport.fitted):
        double_click(plot, place_of(plot, 40, 50))
    plot.refresh()
    assert in_sight(plot) == pytest.approx(everything)


def test_the_wheel_zooms_along_x_and_keeps_the_curve_in_sight(plot: CurvePlot) -> None:
    falling(plot)
    for _ in range(12):
        wheel(plot, place_of(plot, 90, 1), Qt.KeyboardModifier.ControlModifier)
        plot.refresh()
    x0, x1, y0, y1 = in_sight(plot)
    assert x0 < 90 < x1 < 99
    assert y0 <= 1000 * 0.9**x1 < 1000 * 0.9**x0 <= y1 < 2 * 1000 * 0.9**x0


@pytest.mark.parametrize("ctrl", [True, False])
def test_with_shift_the_wheel_zooms_the_values(plot: CurvePlot, ctrl: bool) -> None:
    falling(plot)
    x0, x1, y0, y1 = in_sight(plot)
    key = Qt.KeyboardModifier.ShiftModifier
    if ctrl:
        key |= Qt.KeyboardModifier.ControlModifier
    wheel(plot, place_of(plot, 50, 500), key)
    plot.refresh()
    assert in_sight(plot)[:2] == (x0, x1)
    low, high = in_sight(plot)[2:]
    assert y0 < low < high < y1


def test_values_that_the_user_chose_stay_until_the_next_zoom_along_x(plot: CurvePlot) -> None:
    falling(plot)
    drag(plot, place_of(plot, 10, 500), place_of(plot, 30, 100), Qt.KeyboardModifier.ShiftModifier)
    plot.refresh()
    x0, x1, y0, y1 = in_sight(plot)
    assert (y0, y1) == pytest.approx((100, 500), abs=10)
    assert x0 < 0
    assert x1 > 99
    drag(plot, place_of(plot, 50, 300), place_of(plot, 40, 250), button=MIDDLE)
    plot.refresh()
    moved = in_sight(plot)
    assert moved[0] == pytest.approx(x0 + 10, abs=1)
    assert moved[2:] == (y0, y1)
    wheel(plot, place_of(plot, 60, 300), Qt.KeyboardModifier.ControlModifier)
    plot.refresh()
    assert in_sight(plot)[3] != y1


def test_the_values_hold_still_while_a_pan_changes_them_by_little(plot: CurvePlot) -> None:
    waves = np.sin(STEPS) * (1 + STEPS / 10_000)
    plot.add_points("train", stored_points(STEPS, waves))
    plot.refresh()
    plot.canvas.zoom_x(0.5)
    plot.refresh()
    before = in_sight(plot)
    plot.canvas.pan(0.2, 0.0)
    plot.refresh()
    assert in_sight(plot)[0] > before[0]
    assert in_sight(plot)[2:] == before[2:]


def test_a_zoom_along_x_keeps_the_fixed_ends_of_the_values(qtbot: QtBot) -> None:
    plot = CurvePlot("Utilisation", y_range=(0.0, 100.0), theme=DARK)
    qtbot.addWidget(plot)
    plot.show()
    plot.add_points("0", stored_points(STEPS, np.full(100, 50.0)))
    plot.refresh()
    before = in_sight(plot)
    plot.canvas.zoom_x(0.5)
    plot.refresh()
    assert in_sight(plot)[2:] == pytest.approx(before[2:])


def test_a_curve_that_is_out_of_sight_leaves_the_values_as_they_are(plot: CurvePlot) -> None:
    falling(plot)
    before = in_sight(plot)
    plot.canvas.show_x((200.0, 300.0))
    plot.canvas.moved.emit(200.0, 300.0)
    plot.refresh()
    assert in_sight(plot)[2:] == before[2:]


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


def test_a_plot_that_disappears_below_the_mouse_lets_go(plot: CurvePlot, qtbot: QtBot) -> None:
    plot.add_points("train", stored_points(STEPS, STEPS))
    plot.refresh()
    QApplication.processEvents()
    with qtbot.waitSignal(plot.canvas.hovered):
        QTest.mouseMove(plot.canvas.viewport(), place_of(plot, 60, 20))
    with qtbot.waitSignal(plot.canvas.hovered) as heard:
        plot.hide()
    assert heard.args == [None]
