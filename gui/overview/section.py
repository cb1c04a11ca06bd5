"""A part of the overview: a heading, a note or a button beside it, and its content below."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QPushButton, QWidget

from gui.widgets.boxes import column_of, row_of
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.plain_text import Label, plain_tip

_HEADING = 24
"""Height of the line with the heading, in logical pixels."""


class Section(QWidget):
    """Its content is added to `column`."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self.title = Label(title.upper(), objectName="h")
        self.title.setAccessibleName(title)
        self.note = ElidedLabel(objectName="note")
        self.note.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        self._line = row_of(spacing=4)
        self._line.addStrut(_HEADING)
        self._line.addWidget(self.title)
        self._line.addWidget(self.note, 1)
        self.column = column_of(self._line, parent=self, margins=(0, 0, 0, 8), spacing=2)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)

    def set_note(self, text: str, tip: str = "") -> None:
        """Show a text at the end of the heading."""
        self.note.setText(text)
        self.note.setToolTip(plain_tip(tip or text))

    def add_button(self, text: str, tip: str) -> QPushButton:
        """Add a quiet button at the end of the heading."""
        button = QPushButton(text)
        button.setObjectName("quiet")
        button.setToolTip(plain_tip(tip))
        button.setAutoDefault(False)
        self._line.addWidget(button)
        return button
