"""Somebody who types a name into the dialog that asks where to save."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication, QFileDialog, QLineEdit, QMessageBox


class Saver:
    """Types `name` and accepts; where the dialog then asks something, says no and gives up."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._typed = False
        self.questions: list[str] = []
        self.proposals: list[str] = []
        self._is_there = True

    def __enter__(self) -> Self:
        self._come_back()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._is_there = False

    def _come_back(self) -> None:
        QTimer.singleShot(10, self._look)

    def _look(self) -> None:
        if not self._is_there:
            return
        self._come_back()  # before a question is waited for here
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
