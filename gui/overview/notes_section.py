"""Name, tags and note of a run, edited in place; they are written when the field is left."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, Qt, Signal
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFormLayout, QLineEdit, QPlainTextEdit, QWidget

from engine.runs.run_info import RunInfo
from engine.runs.run_notes import ChangedNotes, RunNotes, tags_of
from gui.overview.section import Section
from gui.widgets.plain_text import Label

_NOTE_HEIGHT = 84


class NotesSection(Section):
    """Ctrl+Enter writes at once, Escape restores what was."""

    written = Signal(object)
    """dict[str, ChangedNotes], by the id of their run."""

    def __init__(self) -> None:
        super().__init__("Notes")
        self._info: RunInfo | None = None
        self._shown = RunNotes()
        self._sent: RunNotes | None = None
        self.name = QLineEdit()
        self.tags = QLineEdit()
        self.tags.setPlaceholderText("baseline, sweep")
        self.text = QPlainTextEdit()
        self.text.setObjectName("field")
        self.text.setTabChangesFocus(True)
        self.text.setPlaceholderText("What this run is about")
        self.text.setFixedHeight(_NOTE_HEIGHT)
        form = QFormLayout()
        form.setContentsMargins(0, 4, 0, 0)
        form.setVerticalSpacing(5)
        form.setHorizontalSpacing(10)
        for field, title in ((self.name, "Name"), (self.tags, "Tags"), (self.text, "Note")):
            label = Label(title, objectName="mut")
            field.setAccessibleName(title)
            field.installEventFilter(self)
            form.addRow(label, field)
        self.column.addLayout(form)
        for line in (self.name, self.tags):
            line.editingFinished.connect(self.write)

    def show_info(self, info: RunInfo) -> None:
        """Show the notes of a run; what is being typed stays."""
        is_other = self._info is None or self._info.id != info.id
        if is_other:
            self.write()
        self._info = info
        if self._sent == info.notes:
            self._sent = None
        if is_other:
            self._sent = None
        elif self._sent is not None or self.is_typed:
            return
        self._show(info.notes)

    def clear(self) -> None:
        """Write what was typed, and show nothing."""
        self.write()
        self._info = None
        self._show(RunNotes())

    @property
    def is_typed(self) -> bool:
        """Whether the fields hold something that was not written."""
        return self._typed() != self._shown

    def write(self) -> None:
        """Write what was typed, if anything."""
        notes = self._typed()
        if self._info is None or notes == self._shown:
            return
        change = ChangedNotes(self._shown, notes)
        self._shown = self._sent = notes
        self.written.emit({self._info.id: change})

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Write when the note is left; Escape restores."""
        if event.type() is QEvent.Type.FocusOut and watched is self.text:
            self.write()
        if isinstance(event, QKeyEvent) and event.type() is QEvent.Type.KeyPress:
            if event.key() == Qt.Key.Key_Escape and self.is_typed:
                self._show(self._shown)
                return True
            is_enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
            if is_enter and event.modifiers() & Qt.KeyboardModifier.ControlModifier:
                self.write()
                return True
        return super().eventFilter(watched, event)

    def _typed(self) -> RunNotes:
        note = self.text.toPlainText().strip()
        return RunNotes(name=self.name.text().strip(), tags=tags_of(self.tags.text()), note=note)

    def _show(self, notes: RunNotes) -> None:
        self._shown = notes
        info = self._info
        default = info._replace(notes=RunNotes()).name if info is not None else ""
        self.name.setPlaceholderText(default)
        fields: list[tuple[QWidget, str]] = [
            (self.name, notes.name),
            (self.tags, ", ".join(notes.tags)),
        ]
        for field, text in fields:
            if isinstance(field, QLineEdit) and field.text() != text:
                field.setText(text)
        if self.text.toPlainText() != notes.note:
            self.text.setPlainText(notes.note)
        self._shown = self._typed()
