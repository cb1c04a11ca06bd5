"""A slider whose handle goes where it is clicked."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QMouseEvent
from PySide6.QtWidgets import QSlider, QStyle, QStyleOptionSlider, QWidget


class JumpSlider(QSlider):
    """A click in the groove moves the handle there at once, and a drag goes on from there."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(Qt.Orientation.Horizontal, parent)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Move the handle before Qt takes it."""
        if event.button() is Qt.MouseButton.LeftButton:
            option = QStyleOptionSlider()
            self.initStyleOption(option)
            part = QStyle.SubControl.SC_SliderHandle
            complex = QStyle.ComplexControl.CC_Slider
            handle = self.style().subControlRect(complex, option, part, self)
            if not handle.contains(event.position().toPoint()):
                place = round(event.position().x()) - handle.width() // 2
                room = self.width() - handle.width()
                self.setValue(
                    QStyle.sliderValueFromPosition(self.minimum(), self.maximum(), place, room)
                )
        super().mousePressEvent(event)
