"""The dialog in which the user chooses the editor that opens recipes and scripts."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QLineEdit, QWidget

from gui.bridge.files.editor import Editor, command_problem
from gui.widgets.boxes import column_of
from gui.widgets.entry_fields import FieldNote
from gui.widgets.plain_text import Label

_WIDTH = 440


class EditorDialog(QDialog):
    """A line for the command of the editor; it is accepted while it has no problem."""

    def __init__(self, editor: Editor, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._editor = editor
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Editor")
        self.setMinimumWidth(_WIDTH)
        label = Label("&Command of the editor")
        self.command = QLineEdit(editor.command)
        self.command.setPlaceholderText("code -g {file}:{line}")
        label.setBuddy(self.command)
        self.note = FieldNote()
        self.note.set_note(
            "{file} and {line} stand for the place of an error; known editors need neither. "
            "Empty: VISUAL or EDITOR of the environment, or an editor that is installed."
        )
        buttons = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(buttons.Ok | buttons.Cancel)
        self.buttons.accepted.connect(self._accept)
        self.buttons.rejected.connect(self.reject)
        self.command.textChanged.connect(self._check)
        column_of(label, self.command, self.note, self.buttons, parent=self)

    def _check(self, command: str) -> None:
        problem = command_problem(command)
        self.note.set_problem(problem)
        self.buttons.button(QDialogButtonBox.StandardButton.Ok).setEnabled(not problem)

    def _accept(self) -> None:
        self._editor.set_command(self.command.text())
        self.accept()


def ask_for_editor(editor: Editor, window: QWidget) -> None:
    """Let the user choose the editor."""
    EditorDialog(editor, window).open()
