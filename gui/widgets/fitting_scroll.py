"""A scroll area that is as high as its content while there is room, and scrolls otherwise."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QSize, Qt, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QScrollArea, QSizePolicy, QWidget


class FittingScroll(QScrollArea):
    """Never higher than its content; lower only if it may shrink."""

    def __init__(self, content: QWidget, least: int | None = None) -> None:
        """`min_height`: minimum height in logical pixels; None: the height of the content."""
        super().__init__()
        self._least, self._content = least, content
        content.setObjectName("content")
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Maximum)
        self.setWidget(content)

    def set_least(self, least: int | None) -> None:
        """Change the minimum height; see the constructor."""
        self._least = least
        self.updateGeometry()

    def show_soon(self, widget: QWidget) -> None:
        """Scroll to `widget` after the layout has been updated."""
        QTimer.singleShot(0, self, lambda: self.ensureWidgetVisible(widget))

    def sizeHint(self) -> QSize:
        """The height of the content at the present width."""
        return QSize(super().sizeHint().width(), self._wanted())

    def minimumSizeHint(self) -> QSize:
        """The minimum height."""
        wanted = self._wanted()
        return QSize(0, wanted if self._least is None else min(self._least, wanted))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Update the height, which depends on the width."""
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.updateGeometry()

    def viewportEvent(self, event: QEvent) -> bool:
        """Update the height when the content has changed."""
        if event.type() is QEvent.Type.LayoutRequest:
            self.updateGeometry()
        return super().viewportEvent(event)

    def _wanted(self) -> int:
        if self._content.hasHeightForWidth():
            return self._content.heightForWidth(self.viewport().width())
        return self._content.sizeHint().height()
