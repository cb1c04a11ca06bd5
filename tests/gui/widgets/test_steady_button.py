"""Steady buttons: a held key presses once; one with a menu looks as before when that has closed."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QPoint, QPointF, Qt, QTimer
from PySide6.QtGui import QCursor, QEnterEvent, QKeyEvent
from PySide6.QtWidgets import QApplication, QMainWindow
from pytestqt.qtbot import QtBot

from gui.widgets.steady_button import MoreButton, SteadyButton


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


def test_a_key_that_is_held_presses_once(qtbot: QtBot) -> None:
    """As under X11, where Qt takes some of the repeats for presses of their own."""
    button = SteadyButton(("Start",), "")
    qtbot.addWidget(button)
    clicks: list[None] = []
    button.clicked.connect(lambda: clicks.append(None))

    def send(kind: QEvent.Type, at: int, *, repeats: bool = False) -> None:
        space, none = Qt.Key.Key_Space, Qt.KeyboardModifier.NoModifier
        event = QKeyEvent(kind, space, none, " ", repeats)
        event.setTimestamp(at)
        QApplication.sendEvent(button, event)

    press, release = QEvent.Type.KeyPress, QEvent.Type.KeyRelease
    send(press, 1000)
    for at in range(1600, 4000, 40):
        is_seen = at % 400 != 0
        send(release, at, repeats=is_seen)
        send(press, at, repeats=is_seen)
    send(release, 4010)
    assert len(clicks) == 1
    send(press, 4200)
    send(release, 4300)
    assert len(clicks) == 2, "the next press is another one"
