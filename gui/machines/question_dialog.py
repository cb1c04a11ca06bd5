"""The dialog for what `ssh` asks about a machine, such as a password."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QLineEdit, QPushButton, QWidget

from gui.widgets.boxes import STRETCH, column_of, row_of
from gui.widgets.plain_text import Label

_WIDTH = 420


class QuestionDialog(QDialog):
    """Does not block the window. The answer is hidden, passed on once, and not kept."""

    answered = Signal(object)
    """The answer; None: the user does not want to answer."""

    def __init__(self, machine: str, prompt: str, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(f"Connect to {machine}")
        self.setMinimumWidth(_WIDTH)
        self._is_answered = False
        asks = Label(f"SSH asks, to connect to {machine}:")
        question = Label(prompt.strip(), objectName="ttl", wordWrap=True)
        self.field = QLineEdit()
        self.field.setEchoMode(QLineEdit.EchoMode.Password)
        self.field.setAccessibleName(prompt.strip())
        note = Label("It is passed to ssh, and neither stored nor logged.", objectName="note")
        cancel = QPushButton("Cancel")
        cancel.setAutoDefault(False)
        cancel.clicked.connect(self.reject)
        self.answer = QPushButton("Answer")
        self.answer.setObjectName("go")
        self.answer.setDefault(True)
        self.answer.clicked.connect(self._answer)
        buttons = row_of(STRETCH, cancel, self.answer)
        column_of(asks, question, self.field, note, buttons, parent=self, spacing=10)
        self.field.setFocus()

    def end(self) -> None:
        """The question is not asked any more."""
        self._is_answered = True
        self.reject()

    def done(self, result: int) -> None:
        """In whichever way it is closed, without an answer it means Cancel."""
        self._tell(None)
        super().done(result)

    def _answer(self) -> None:
        self._tell(self.field.text())
        self.accept()

    def _tell(self, answer: str | None) -> None:
        if not self._is_answered:
            self._is_answered = True
            self.field.clear()
            self.answered.emit(answer)
