"""A scroll area that is as high as its content while there is room, and scrolls otherwise."""

from __future__ import annotations

from itertools import accumulate

from PySide6.QtCore import QEvent, QSize, Qt, QTimer
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QLayout, QScrollArea, QSizePolicy, QWidget

from gui.widgets.layouts.layout_order import widgets_in


class FittingScroll(QScrollArea):
    """Never higher than its content; lower only if it may shrink."""

    _rows: QLayout | None = None

    def __init__(
        self, content: QWidget, min_height: int | None = None, rows: QLayout | None = None
    ) -> None:
        """`min_height`: minimum height in logical pixels; None: the height of the content.

        `rows`: the layout of rows that lie at the top of `content`; none of them is cut while it
        is not scrolled.
        """
        super().__init__()
        self._min_height, self._content, self._rows = min_height, content, rows
        content.setObjectName("content")
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Maximum)
        self.setWidget(content)

    def set_min_height(self, min_height: int | None) -> None:
        """Change the minimum height; see the constructor."""
        self._min_height = min_height
        self.updateGeometry()

    def scroll_to(self, widget: QWidget) -> None:
        """Scroll to `widget` after the layout has been updated."""
        QTimer.singleShot(0, self, lambda: self.ensureWidgetVisible(widget))

    def sizeHint(self) -> QSize:
        """The height of the content at the present width."""
        return QSize(super().sizeHint().width(), self._content_height())

    def minimumSizeHint(self) -> QSize:
        """The minimum height."""
        wanted = self._content_height()
        return QSize(0, wanted if self._min_height is None else min(self._min_height, wanted))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Update the height, which depends on the width."""
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self.updateGeometry()

    def event(self, event: QEvent) -> bool:
        """Find anew where to end: `resizeEvent` tells of the viewport only."""
        handled = super().event(event)
        if event.type() is QEvent.Type.Resize:
            self._cut_between_rows()
        return handled

    def viewportEvent(self, event: QEvent) -> bool:
        """Update the height when the content has changed."""
        if event.type() is QEvent.Type.LayoutRequest:
            self.updateGeometry()
            self._cut_between_rows()
        return super().viewportEvent(event)

    def _cut_between_rows(self) -> None:
        """End below the last of the rows that is whole."""
        if self._rows is None:
            return
        room, rest = self.height(), 0
        if self._content_height() > room:
            rows = [row for row in widgets_in(self._rows, self._content) if not row.isHidden()]
            heights = [_height(row) for row in rows]
            gap = self._rows.spacing()
            bottoms = accumulate(heights, lambda bottom, height: bottom + gap + height)
            rest = room - max((bottom for bottom in bottoms if bottom <= room), default=room)
        if self.viewportMargins().bottom() != rest:
            self.setViewportMargins(0, 0, 0, rest)

    def _content_height(self) -> int:
        if self._content.hasHeightForWidth():
            return self._content.heightForWidth(self.viewport().width())
        return self._content.sizeHint().height()


def _height(row: QWidget) -> int:
    """Return the height that a layout gives to `row`."""
    wanted = row.sizeHint().expandedTo(row.minimumSize()).boundedTo(row.maximumSize())
    return wanted.height()
