"""The fields of a script for its folder and its Python."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QSignalBlocker, Qt, Signal
from PySide6.QtWidgets import QFileDialog, QLineEdit, QVBoxLayout, QWidget

from engine.environments.registry import Environment
from engine.spec.field_info import FieldInfo, Setting
from gui.bridge.environments import choices
from gui.bridge.files.script_files import ScriptPython, environment_of, environments, interpreter_in
from gui.widgets.boxes import row_of
from gui.widgets.entry_fields import Combo, Editor, Field
from gui.widgets.icon_button import IconButton
from gui.widgets.plain_text import plain_tip

_OWN = ScriptPython("", "Traindeck's own")


class FolderField(Field):
    """A line for a folder, with a button that opens a dialog."""

    def __init__(self, info: FieldInfo, parent: QWidget | None = None) -> None:
        super().__init__(info, parent)
        text = "Choose a folder"
        button = IconButton("folder-open", text, text)
        button.clicked.connect(self._browse)
        row = row_of((self.widget, 1), button, spacing=4)
        layout = self.layout()
        assert isinstance(layout, QVBoxLayout)
        layout.insertLayout(0, row)

    def set_empty_text(self, folder: str) -> None:
        """Show which folder an empty line means."""
        assert isinstance(self.widget, QLineEdit)
        self.widget.setPlaceholderText(folder)

    def _browse(self) -> None:
        assert isinstance(self.widget, QLineEdit)
        start = self.widget.text() or self.widget.placeholderText()
        folder = QFileDialog.getExistingDirectory(self, "Choose a folder", start)
        if folder:
            self.set_value(folder)


class InterpreterChoice(Combo):
    """Lists the environments that can run a script, and on this machine an entry for any other
    Python."""

    chosen = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._last = 0
        self._script = ""
        self._chosen_by_user = False
        self._machine = ""
        """Where the script runs; empty: on this machine."""

        self._found_there: Sequence[Environment] = ()
        self._chosen_here = ""
        """What the user has chosen on this machine, while another one is shown."""

        self._fill([_OWN])
        self.activated.connect(self._activated)

    def offer(self, script: str) -> None:
        """List the environments for `script`; choose one beside it until the user has chosen."""
        self._script = script
        self._list(self.interpreter())

    def go_to(self, machine: str, found: Sequence[Environment]) -> None:
        """List the Pythons that a machine has `found` (empty: those of this one). What was chosen
        on this one is chosen again when it is back. Does not emit `chosen`."""
        chosen = self.interpreter()
        if machine != self._machine:
            if not self._machine:
                self._chosen_here = chosen if self._chosen_by_user else ""
            chosen = "" if machine else self._chosen_here
            self._chosen_by_user = bool(chosen)
        self._machine, self._found_there = machine, found
        with QSignalBlocker(self):
            self._list(chosen)

    def is_listed(self, interpreter: str) -> bool:
        """Whether this Python can be chosen by its name."""
        return self.findData(interpreter) >= 0

    def interpreter(self) -> str:
        """Return the path of the chosen Python; empty: the one of Traindeck."""
        return str(self.itemData(self._last) or "")

    def choose(self, interpreter: str) -> None:
        """Choose a Python by its path."""
        row = self.findData(interpreter)
        if row < 0:
            row = self.count() - (not self._machine)  # before the entry that opens a dialog
            self._insert(row, self._other(interpreter))
        self._last = row
        self.setCurrentIndex(row)
        self.setToolTip(plain_tip(interpreter))
        self.chosen.emit()

    def set_by_user(self, is_chosen: bool) -> None:
        """Say whether the choice stays when another script is chosen."""
        self._chosen_by_user = is_chosen
        if not is_chosen:
            self._chosen_here = ""

    def _list(self, before: str) -> None:
        if self._machine:
            listed = choices(self._machine, self._found_there, before)
            found = [ScriptPython(*each) for each in listed]
        else:
            found = environments(self._script) if self._script else []
            if before and all(each.interpreter != before for each in found):
                found.append(environment_of(before))
        self._fill(found or [_OWN])
        usual = next((each.interpreter for each in found if each.is_usual), "")
        self.choose(before if self._chosen_by_user or not usual else usual)

    def _other(self, interpreter: str) -> ScriptPython:
        """Describe a Python that has no name on the machine."""
        if self._machine:
            return ScriptPython(interpreter, interpreter)
        return environment_of(interpreter)

    def _fill(self, found: list[ScriptPython]) -> None:
        with QSignalBlocker(self):
            self.clear()
            for each in found:
                self._insert(self.count(), each)
            if not self._machine:
                self.addItem("Browse…", None)
            self._last = 0

    def _insert(self, row: int, each: ScriptPython) -> None:
        self.insertItem(row, each.title, each.interpreter)
        tip = plain_tip(each.interpreter or each.title)
        self.setItemData(row, tip, Qt.ItemDataRole.ToolTipRole)

    def _activated(self, row: int) -> None:
        self._chosen_by_user = True
        if self.itemData(row) is not None:
            self.choose(self.itemData(row))
            return
        self.setCurrentIndex(self._last)
        start = str(Path(self._script).parent)
        path, _ = QFileDialog.getOpenFileName(self, "Choose a Python", start)
        if path:
            self.choose(interpreter_in(path))


class InterpreterField(Field):
    """The Python that runs a script."""

    def __init__(self, info: FieldInfo, parent: QWidget | None = None) -> None:
        self.choice = InterpreterChoice()
        super().__init__(info, parent, self._editor_of_choice())

    def set_value(self, value: Setting) -> None:
        """Choose the Python of a spec, which stays until the user chooses another script."""
        self.choice.set_by_user(bool(value))
        super().set_value(value)

    def _editor_of_choice(self) -> Editor:
        choice = self.choice
        return Editor(
            choice,
            choice.interpreter,
            lambda value: choice.choose(str(value)),
            choice.chosen,
        )
