"""A button with a menu looks as before when its menu has closed."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QPointF, Qt, QTimer
from PySide6.QtGui import QCursor, QEnterEvent
from PySide6.QtWidgets import QApplication, QMainWindow
from pytestqt.qtbot import QtBot

from gui.widgets.steady_button import MoreButton


def test_a_button_lets_go_when_its_menu_closes(qtbot: QtBot) -> None:
    window = QMainWindow()
    qtbot.addWidget(window)
    button = MoreButton("More")
    button.setParent(window)
    button.resize(20, 24)
    button.menu().addAction("Something")
    window.show()
    QCursor.setPos(window.mapToGlobal(QPoint(300, 300)))
    place = QPointF(5, 5)
    QApplication.sendEvent(button, QEnterEvent(place, place, place))
    assert button.underMouse()
    QTimer.singleShot(0, button.menu().close)
    button.showMenu()
    qtbot.waitUntil(lambda: not button.underMouse())
    assert button.focusPolicy() is Qt.FocusPolicy.TabFocus, "the keyboard reaches it, no click"
