"""The place of the form for its sentences: problems, warnings, and how devices share the work."""

from __future__ import annotations

from collections.abc import Iterable

from PySide6.QtCore import QEvent, QSize
from PySide6.QtGui import QFontMetrics, QResizeEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

_LINES = 2
"""Lines that are reserved, so that nothing moves when a warning comes or goes."""

_GAP = 1
_FONT_PIXELS = 11


class NoticeArea(QWidget):
    """Labels above each other; those without a text take no room.

    It does not offer `heightForWidth` to the layout: the layout would then give the form its full
    height, and the side panel would scroll instead of the form.
    """

    def __init__(self, labels: Iterable[QWidget], parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("notices")
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(_GAP)
        for label in labels:
            layout.addWidget(label)
        layout.addStretch(1)

    def hasHeightForWidth(self) -> bool:
        return False

    def minimumSizeHint(self) -> QSize:
        font = self.font()
        font.setPixelSize(_FONT_PIXELS)
        reserved = _LINES * (QFontMetrics(font).height() + _GAP) - _GAP
        layout = self.layout()
        needed = layout.totalHeightForWidth(self.width()) if layout is not None else 0
        return QSize(0, max(reserved, needed))

    def sizeHint(self) -> QSize:
        return self.minimumSizeHint()

    def event(self, event: QEvent) -> bool:
        """Tell the form when a label has appeared, has gone, or has another height."""
        if event.type() is QEvent.Type.LayoutRequest:
            self.updateGeometry()
        return super().event(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.updateGeometry()
