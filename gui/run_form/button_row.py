"""The buttons below the form; those of less weight are left out where they have no room."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QEvent, QSize
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QLayout, QPushButton, QSizePolicy, QWidget

from gui.widgets.boxes import row_of

_GAP = 6


class ButtonRow(QWidget):
    """As wide as it may be; a menu has what is left out."""

    def __init__(
        self, first: QPushButton, between: Sequence[QPushButton], last: QPushButton
    ) -> None:
        """`between` the `first` and the `last` one, the most important first."""
        super().__init__()
        self._ends, self._between = (first, last), list(between)
        self._wanted = set(between)
        row = row_of(parent=self, margins=0, spacing=_GAP)
        row.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        row.addWidget(first, 1)
        for button in (*between, last):
            row.addWidget(button)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._place()

    def set_wanted(self, button: QPushButton, wanted: bool) -> None:
        """Show one of the buttons between, where it has room, or not at all."""
        if wanted != (button in self._wanted):
            (self._wanted.add if wanted else self._wanted.remove)(button)
            self._place()

    def minimumSizeHint(self) -> QSize:
        """The room of the first and the last one."""
        hints = [button.sizeHint() for button in self._ends]
        width = sum(hint.width() for hint in hints) + _GAP
        return QSize(width, max(hint.height() for hint in hints))

    def sizeHint(self) -> QSize:
        return self.minimumSizeHint()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Show as many as have room now."""
        super().resizeEvent(event)
        self._place()

    def event(self, event: QEvent) -> bool:
        """Place them anew when a text has changed."""
        if event.type() is QEvent.Type.LayoutRequest:
            self._place()
        return super().event(event)

    def _place(self) -> None:
        left = self.width() - self.minimumSizeHint().width()
        for button in self._between:
            width = button.sizeHint().width() + _GAP
            has_room = button in self._wanted and width <= left
            left -= width if has_room else 0
            if has_room == button.isHidden():
                button.setVisible(has_room)
