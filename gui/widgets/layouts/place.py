"""A place in a layout for a widget that is made later."""

from __future__ import annotations

from PySide6.QtWidgets import QWidget

from gui.widgets.boxes import column_of


class Place(QWidget):
    """Empty until `fill`; then it has the size of its only child."""

    def __init__(self) -> None:
        super().__init__()
        self._layout = column_of(parent=self, margins=0)

    def fill(self, widget: QWidget) -> None:
        """Put `widget` here, for ever."""
        self._layout.addWidget(widget)
