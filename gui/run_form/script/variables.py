"""The environment variables of a script in the run form; secrets are hidden and not stored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QCheckBox, QLineEdit, QPushButton, QWidget

from engine.scripts.secrets import looks_secret, may_store
from gui.widgets.boxes import STRETCH, column_of, row_of
from gui.widgets.entry_fields import FieldNote, show_fault
from gui.widgets.icon_button import IconButton
from gui.widgets.plain_text import Label


class VariablesField(QWidget):
    """Rows of a name and a value."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.label = Label("Environment variables")
        self.rows: list[VariableRow] = []
        self.add_button = QPushButton("Add a variable")
        self.add_button.setObjectName("quiet")
        self.add_button.clicked.connect(self._add_empty)
        self.note_label = FieldNote()
        self._layout = column_of(margins=0, spacing=3)
        bottom = row_of(self.add_button, STRETCH)
        column_of(self._layout, self.note_label, bottom, parent=self, margins=0, spacing=2)

    @property
    def problem(self) -> str:
        """The displayed problem, or empty."""
        return self.note_label.problem

    @property
    def is_changed(self) -> bool:
        """Whether there is a variable."""
        return bool(self.rows)

    def set_problem(self, text: str) -> None:
        """Show a problem below the rows; empty: there is none."""
        self.note_label.set_problem(text)
        for row in self.rows:
            show_fault(row.name, text)

    def set_variables(
        self,
        variables: Mapping[str, str],
        secret_names: Iterable[str],
        stored_names: Iterable[str] = (),
    ) -> None:
        """Show `variables`, and the names of those whose values were not stored; `stored_names`:
        those whose values are stored because the user says so."""
        for row in list(self.rows):
            self._remove(row, tell=False)
        for name, value in variables.items():
            self._add(name, value).stored.setChecked(name in stored_names)
        for name in secret_names:
            if name not in variables:
                self._add(name, "")
        self._update()

    def variables(self) -> dict[str, str]:
        """Return the variables with a name and, if they are secret, with a value."""
        return {
            row.name.text().strip(): row.value.text()
            for row in self.rows
            if row.name.text().strip() and (row.value.text() or not row.is_secret)
        }

    def stored_names(self) -> tuple[str, ...]:
        """Return the names of those whose values are stored because the user says so."""
        return tuple(row.name.text().strip() for row in self.rows if row.stored.isChecked())

    def secret_names(self) -> tuple[str, ...]:
        """Return the names of secret variables without a value: their environment has it."""
        return tuple(
            row.name.text().strip() for row in self.rows if row.is_secret and not row.value.text()
        )

    def entry_problem(self) -> str:
        """Return what is wrong with the names, in a sentence; empty if nothing is."""
        names = [row.name.text().strip() for row in self.rows]
        for name, row in zip(names, self.rows, strict=True):
            if not name and row.value.text():
                return "A value has no name."
        doubled = next((name for name in names if name and names.count(name) > 1), "")
        return f"{doubled} is given twice." if doubled else ""

    def _add_empty(self) -> None:
        self._add("", "").name.setFocus()

    def _add(self, name: str, value: str) -> VariableRow:
        row = VariableRow(name, value)
        row.changed.connect(self._update)
        row.changed.connect(self.changed)
        row.removed.connect(lambda: self._remove(row))
        self.rows.append(row)
        self._layout.addWidget(row)
        return row

    def _remove(self, row: VariableRow, *, tell: bool = True) -> None:
        place = self.rows.index(row)
        self.rows.remove(row)
        self._layout.removeWidget(row)
        row.hide()
        row.deleteLater()
        if tell:
            following = self.rows[min(place, len(self.rows) - 1)].name if self.rows else None
            (following or self.add_button).setFocus()
            self._update()
            self.changed.emit()

    def _update(self) -> None:
        listed = ", ".join(row.name.text().strip() for row in self.rows if not row.is_stored)
        text = f"Not stored with the run, and asked for at a resume: {listed}."
        self.note_label.set_note(text if listed else "")


class VariableRow(QWidget):
    """One variable."""

    changed = Signal()
    removed = Signal()

    def __init__(self, name: str, value: str) -> None:
        super().__init__()
        self.name, self.value = QLineEdit(name), QLineEdit(value)
        self.name.setPlaceholderText("NAME")
        self.name.setAccessibleName("Name of the variable")
        self.value.setPlaceholderText("value")
        self.stored = QCheckBox("Store")
        self.stored.setToolTip("Store the value with the run, although it may be a secret.")
        self.stored.toggled.connect(self._text_changed)
        remove = IconButton("x", "Remove the variable", "Remove the variable")
        remove.clicked.connect(self.removed)
        row_of(
            (self.name, 4), (self.value, 5), self.stored, remove, parent=self, margins=0, spacing=3
        )
        self._was_secret = bool(name) and not value
        for line in (self.name, self.value):
            line.textChanged.connect(self._text_changed)
        self._show_secret()

    @property
    def is_secret(self) -> bool:
        """Whether name or value look like those of a secret."""
        name = self.name.text().strip()
        return bool(name) and (self._was_secret or looks_secret(name, self.value.text()))

    @property
    def is_stored(self) -> bool:
        """Whether the value is stored with the run; that of an empty row is not asked for."""
        name = self.name.text().strip()
        said = (name,) if self.stored.isChecked() else ()
        return not name or (may_store(name, self.value.text(), said) and not self._was_secret)

    def _text_changed(self) -> None:
        self._show_secret()
        self.changed.emit()

    def _show_secret(self) -> None:
        hidden, shown = QLineEdit.EchoMode.Password, QLineEdit.EchoMode.Normal
        self.value.setEchoMode(hidden if self.is_secret else shown)
        name = self.name.text().strip()
        self.value.setAccessibleName(f"Value of {name}")
        self.stored.setVisible(bool(name) and not may_store(name, self.value.text()))
