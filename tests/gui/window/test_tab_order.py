"""The first widget that Tab reaches is found without harm to the others."""

from __future__ import annotations

from PySide6.QtWidgets import QLabel, QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot
from shiboken6 import delete, isValid

from gui.window.tab_order import first_tab_stop


def test_a_widget_that_was_passed_by_takes_no_other_one_with_it(qtbot: QtBot) -> None:
    window, pane = QWidget(), QWidget()
    qtbot.addWidget(window)
    QVBoxLayout(window).addWidget(pane)
    label, disabled, button = QLabel("a"), QPushButton("b"), QPushButton("c")
    column = QVBoxLayout(pane)
    for widget in (label, disabled, button):
        column.addWidget(widget)
    disabled.setEnabled(False)
    window.show()
    assert first_tab_stop(pane) is button
    delete(label)
    delete(disabled)
    assert isValid(button)
    button.hide()
    assert first_tab_stop(pane) is None
