"""A user who types a file name into the dialog that asks where to save."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QFileDialog, QLineEdit, QMessageBox


class SaveDialogUser:
    """Types `name` and accepts; answers a question of the dialog with No, and cancels."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._typed = False
        self.questions: list[str] = []
        self.proposals: list[str] = []
        self._is_active = True

    def __enter__(self) -> Self:
        self._schedule()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_active = False

    def _schedule(self) -> None:
        QTimer.singleShot(10, self._act)

    def _act(self) -> None:
        if not self._is_active:
            return
        self._schedule()  # before a question is waited for here
        dialog = QApplication.activeModalWidget()
        if isinstance(dialog, QMessageBox):
            self.questions.append(dialog.text())
            dialog.button(QMessageBox.StandardButton.No).click()
        elif isinstance(dialog, QFileDialog):
            if self.questions:
                dialog.reject()
                return
            field = dialog.findChild(QLineEdit)
            assert isinstance(field, QLineEdit)
            self.proposals.append(field.text())
            if not self._typed:
                self._typed = True
                field.setText(self._name)
            dialog.accept()
