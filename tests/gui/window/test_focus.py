"""The focus is seen wherever it is, and is not lost with what had it."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint, QRect, Qt
from PySide6.QtGui import QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QGraphicsView, QMainWindow, QScrollArea, QWidget
from pytestqt.qtbot import QtBot

from tests.gui.window.test_reach import go_round
from tests.gui.window_states import called, window_in_state
from tools.screenshots.pictures import State


@pytest.mark.parametrize("state", ["running", "failed", "compare"])
def test_it_is_seen_what_has_the_focus(state: State, qapp: QApplication, qtbot: QtBot) -> None:
    with window_in_state(state, qapp) as app:
        with qtbot.waitActive(app.window):
            app.window.activateWindow()
        stops = go_round(app.window)
        unseen = [called(stop) for stop in stops if not focus_shows(app.window, stop)]
    assert not unseen, "\n".join(unseen)


def focus_shows(window: QMainWindow, stop: QWidget) -> bool:
    """Whether it can be seen that `stop` has the focus."""
    around: QWidget | None = stop
    while around := around.parentWidget() if around else None:
        if isinstance(around, QScrollArea):
            around.ensureWidgetVisible(stop)
    stop.setFocus(Qt.FocusReason.TabFocusReason)
    QApplication.processEvents()
    focused = picture(window, stop)
    stop.clearFocus()
    QApplication.processEvents()
    return focused != picture(window, stop)


def picture(window: QWidget, stop: QWidget) -> QImage:
    """The widget with the card around it, which may be what changes."""
    card = stop
    while isinstance(stop, QGraphicsView) and card.objectName() != "card" and card.parentWidget():
        card = card.parentWidget()
    place = QRect(card.mapTo(window, QPoint()), card.size())
    return window.grab(place).toImage()


def test_the_focus_survives_another_run(qapp: QApplication, qtbot: QtBot) -> None:
    """Chips of curves go with the run that they belong to."""
    with window_in_state("running", qapp) as app:
        with qtbot.waitActive(app.window):
            app.window.activateWindow()
        chip = app.plots.plots()[0].legend.chips()[0]
        chip.setFocus()
        assert chip.hasFocus()
        app.open(app.run_list.watched)
        qapp.sendPostedEvents(None, QEvent.Type.DeferredDelete)
        assert QApplication.focusWidget() is not None


def test_a_pinned_run_keeps_the_focus(qapp: QApplication, qtbot: QtBot) -> None:
    with window_in_state("compare", qapp) as app:
        with qtbot.waitActive(app.window):
            app.window.activateWindow()
        chips, run_id = app.comparison.chips, app.chosen.ids()[2]
        chips.pin(run_id).setFocus()
        QTest.keyClick(chips.pin(run_id), Qt.Key.Key_Space)
        assert app.chosen.baseline == run_id
        assert QApplication.focusWidget() is chips.pin(run_id)
