"""The line for the arguments of a script, and the whole command below it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from PySide6.QtCore import Qt, QTimer
from PySide6.QtGui import QFont, QGuiApplication, QResizeEvent, QTextLayout, QTextOption
from PySide6.QtWidgets import QGridLayout, QPlainTextEdit, QWidget

from gui.run_form.form_layout import COLUMN_GAP
from gui.run_form.script.script_page import ARGUMENTS
from gui.style.theme import monospace_font
from gui.widgets.entry_fields import Field
from gui.widgets.icon_button import IconButton

_MOST_LINES = 3


class CommandView(QWidget):
    """Shows the command that the fields stand for."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.arguments = Field(ARGUMENTS)
        self.arguments.label.setText("&Arguments")
        self.text = QPlainTextEdit()
        self.text.setObjectName("command")
        self.text.setReadOnly(True)
        self.text.setTabChangesFocus(True)
        self.text.setFont(monospace_font())
        self.text.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.text.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.text.setAccessibleName("Command line")
        text = "Copy the command line of the script"
        self.copy_button = IconButton("copy", text, text)
        self.copy_button.clicked.connect(self._copy)
        grid = QGridLayout(self)
        grid.setContentsMargins(0, 0, 0, 0)
        grid.setHorizontalSpacing(COLUMN_GAP)
        grid.setVerticalSpacing(4)
        self.arguments.label.setFixedHeight(self.arguments.widget.sizeHint().height())
        grid.addWidget(self.arguments.label, 0, 0, Qt.AlignmentFlag.AlignTop)
        grid.addWidget(self.arguments, 0, 1, 1, 2)
        grid.addWidget(self.text, 1, 0, 1, 2)
        grid.addWidget(self.copy_button, 1, 2, Qt.AlignmentFlag.AlignTop)
        grid.setColumnStretch(1, 1)
        self._shown = ""
        self._fit()
        self.show_words(())

    def show_words(self, words: Sequence[str]) -> None:
        """Show the command with these words, as one would type it."""
        text = shlex.join(words)
        if text != self._shown:
            self._shown = text
            self.text.setPlainText(text)
            self._fit()
        self.copy_button.setEnabled(bool(text))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Fit the height to the width."""
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            # Not now: Qt is in the middle of placing the widgets of the form.
            QTimer.singleShot(0, self, self._fit)

    def _fit(self) -> None:
        """Show up to some lines; one scrolls to the others."""
        margin = int(self.text.document().documentMargin())
        lines = _lines(self._shown, self.text.font(), self.text.width() - 2 * margin - 4)
        height = min(lines, _MOST_LINES) * self.text.fontMetrics().lineSpacing()
        self.text.setFixedHeight(height + 2 * margin + 6)

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self.text.toPlainText())


def _lines(text: str, font: QFont, width: int) -> int:
    """Return how many lines `text` takes if it is wrapped anywhere at `width` logical pixels."""
    layout = QTextLayout(text, font)
    option = QTextOption()
    option.setWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
    layout.setTextOption(option)
    layout.beginLayout()
    count = 0
    while (line := layout.createLine()).isValid():
        line.setLineWidth(max(width, 40))
        count += 1
    layout.endLayout()
    return max(1, count)
