"""A click in the groove of a slider."""

from __future__ import annotations

from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from gui.widgets.jump_slider import JumpSlider


def test_the_handle_goes_where_it_is_clicked(qtbot: QtBot) -> None:
    slider = JumpSlider()
    qtbot.addWidget(slider)
    slider.setRange(0, 999)
    slider.resize(100, 20)
    slider.show()
    QTest.mouseClick(slider, Qt.MouseButton.LeftButton, pos=QPoint(60, 10))
    assert 500 < slider.value() < 720
    QTest.mouseClick(slider, Qt.MouseButton.LeftButton, pos=QPoint(99, 10))
    assert slider.value() == 999
    QTest.mouseClick(slider, Qt.MouseButton.LeftButton, pos=QPoint(0, 10))
    assert slider.value() == 0
