"""A layout that places widgets side by side, and starts a new line where there is no room."""

from __future__ import annotations

from PySide6.QtCore import QMargins, QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QWidget


class FlowLayout(QLayout):
    """Each widget has its preferred width; hidden widgets take no room."""

    def __init__(self, parent: QWidget | None = None, gap: int = 4) -> None:
        """`gap`: logical pixels between widgets and between lines."""
        super().__init__(parent)
        self._items: list[QLayoutItem] = []
        self._gap = gap
        self.setContentsMargins(QMargins())

    def addItem(self, item: QLayoutItem) -> None:
        """Append `item`."""
        self._items.append(item)

    def insert(self, place: int, widget: QWidget) -> None:
        """Insert `widget` at the position `place`."""
        self.addWidget(widget)
        self._items.insert(place, self._items.pop())
        self.invalidate()

    def count(self) -> int:
        """The number of items."""
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        """Return the item at `index`; None tells Qt that there are no more."""
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        """Remove and return the item at `index`."""
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:
        """It does not expand."""
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        """The height depends on the width."""
        return True

    def heightForWidth(self, width: int) -> int:
        """The height of all lines."""
        return self._place(QRect(0, 0, width, 0), move=False)

    def sizeHint(self) -> QSize:
        """The minimum size: the height depends on the width."""
        return self.minimumSize()

    def minimumSize(self) -> QSize:
        """The size of the largest widget."""
        size = QSize()
        for item in self._items:
            if not item.isEmpty():
                size = size.expandedTo(item.sizeHint())
        return size

    def setGeometry(self, rect: QRect) -> None:
        """Place the widgets in `rect`."""
        super().setGeometry(rect)
        self._place(rect, move=True)

    def _place(self, rect: QRect, *, move: bool) -> int:
        """Place the widgets if `move`; return the total height."""
        x, top, line = rect.x(), rect.y(), 0
        for item in self._items:
            if item.isEmpty():
                continue
            hint = item.sizeHint()
            size = QSize(min(hint.width(), rect.width()), hint.height())
            if line and x + size.width() > rect.x() + rect.width():
                x, top, line = rect.x(), top + line + self._gap, 0
            if move:
                item.setGeometry(QRect(QPoint(x, top), size))
            x += size.width() + self._gap
            line = max(line, size.height())
        return top + line - rect.y()
