"""A line of text with an ellipsis where it does not fit."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QStyle

from gui.widgets.plain_text import Label


class ElidedLabel(Label):
    """Accepts any width; `text` keeps the whole text for tooltips and screen readers."""

    def __init__(
        self, mode: Qt.TextElideMode = Qt.TextElideMode.ElideRight, **properties: Any
    ) -> None:
        """`mode`: where the ellipsis is; names of runs mostly differ at their ends."""
        super().__init__(**properties)
        self._mode = mode
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint as much of the text as fits."""
        area = self.contentsRect()
        text = self.fontMetrics().elidedText(self.text(), self._mode, area.width())
        self.style().drawItemText(
            QPainter(self),
            area,
            int(QStyle.visualAlignment(self.layoutDirection(), self.alignment())),
            self.palette(),
            self.isEnabled(),
            text,
            self.foregroundRole(),
        )
