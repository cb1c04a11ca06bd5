"""A layout that puts widgets side by side and goes on in a new line where there is no room."""

from __future__ import annotations

from PySide6.QtCore import QMargins, QPoint, QRect, QSize, Qt
from PySide6.QtWidgets import QLayout, QLayoutItem, QWidget


class FlowLayout(QLayout):
    """Lines of widgets, each as wide as it likes; hidden ones take no room."""

    def __init__(self, parent: QWidget | None = None, gap: int = 4) -> None:
        """`gap`: logical pixels between the widgets, and between the lines."""
        super().__init__(parent)
        self._items: list[QLayoutItem] = []
        self._gap = gap
        self.setContentsMargins(QMargins())

    def addItem(self, item: QLayoutItem) -> None:
        """Put `item` behind the others."""
        self._items.append(item)

    def insert(self, place: int, widget: QWidget) -> None:
        """Put `widget` before the one at `place`."""
        self.addWidget(widget)
        self._items.insert(place, self._items.pop())
        self.invalidate()

    def count(self) -> int:
        """How many items there are."""
        return len(self._items)

    def itemAt(self, index: int) -> QLayoutItem | None:
        """The item at `index`; None where there is none, which is how Qt finds the end."""
        return self._items[index] if 0 <= index < len(self._items) else None

    def takeAt(self, index: int) -> QLayoutItem | None:
        """Take out the item at `index`."""
        return self._items.pop(index) if 0 <= index < len(self._items) else None

    def expandingDirections(self) -> Qt.Orientation:
        """It wants no more room than it needs."""
        return Qt.Orientation(0)

    def hasHeightForWidth(self) -> bool:
        """The narrower it is, the higher."""
        return True

    def heightForWidth(self, width: int) -> int:
        """Of all lines."""
        return self._place(QRect(0, 0, width, 0), move=False)

    def sizeHint(self) -> QSize:
        """That of the smallest: what it really needs goes by its width."""
        return self.minimumSize()

    def minimumSize(self) -> QSize:
        """Room for the largest widget."""
        size = QSize()
        for item in self._items:
            if not item.isEmpty():
                size = size.expandedTo(item.sizeHint())
        return size

    def setGeometry(self, rect: QRect) -> None:
        """Move the widgets to their places in `rect`."""
        super().setGeometry(rect)
        self._place(rect, move=True)

    def _place(self, rect: QRect, *, move: bool) -> int:
        """Go through the lines; the height of them all."""
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
