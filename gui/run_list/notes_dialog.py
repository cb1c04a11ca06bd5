"""The dialog in which the user names a run, tags it and writes a note on it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QStringListModel, Qt, Signal
from PySide6.QtWidgets import (
    QCompleter,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLineEdit,
    QPlainTextEdit,
    QVBoxLayout,
    QWidget,
)

from engine.runs.run_info import RunInfo
from engine.runs.run_notes import RunNotes, ordered_tags, tags_of

_SIZE = (440, 300)


class NotesDialog(QDialog):
    """Edits the notes of one run, or adds tags to several runs."""

    written = Signal(object)
    """dict[str, RunNotes]: the new notes, by run id."""

    def __init__(
        self, infos: Sequence[RunInfo], known_tags: Sequence[str], parent: QWidget | None = None
    ) -> None:
        """`infos` are the runs, at least one; `known_tags` are offered for completion."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._infos = infos
        first = infos[0]
        self.name = QLineEdit(first.notes.name)
        self.name.setPlaceholderText(first._replace(notes=RunNotes()).name)
        self.tags = QLineEdit()
        self.tags.setPlaceholderText(self.tr("baseline, sweep"))
        self.tags.setCompleter(_TagCompleter(known_tags, self.tags))
        self.note = QPlainTextEdit(first.notes.note)
        self.note.setTabChangesFocus(True)
        form = QFormLayout()
        if len(infos) == 1:
            self.setWindowTitle(self.tr("Name, tags and note of run {run}").format(run=first.id))
            self.resize(*_SIZE)
            self.tags.setText(", ".join(first.notes.tags))
            form.addRow(self.tr("&Name"), self.name)
            form.addRow(self.tr("&Tags"), self.tags)
            form.addRow(self.tr("N&ote"), self.note)
        else:
            self.setWindowTitle(self.tr("Tag {count} runs").format(count=len(infos)))
            form.addRow(self.tr("Add &tags"), self.tags)
            self.tags.setMinimumWidth(280)
        for field, title in (
            (self.name, self.tr("Name")),
            (self.tags, self.tr("Tags")),
            (self.note, self.tr("Note")),
        ):
            field.setAccessibleName(title)
        roles = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(roles.Save | roles.Cancel)
        self.buttons.button(roles.Save).setObjectName("go")
        layout = QVBoxLayout(self)
        layout.addLayout(form)
        layout.addWidget(self.buttons)
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        self.accepted.connect(self._write)

    def _write(self) -> None:
        tags = tags_of(self.tags.text())
        if len(self._infos) == 1:
            name, note = self.name.text().strip(), self.note.toPlainText().strip()
            new = {self._infos[0].id: RunNotes(name=name, tags=tags, note=note)}
        else:
            new = {info.id: _with_tags(info.notes, tags) for info in self._infos}
        self.written.emit(new)


def _with_tags(notes: RunNotes, tags: tuple[str, ...]) -> RunNotes:
    return RunNotes(name=notes.name, note=notes.note, tags=ordered_tags(notes.tags + tags))


class _TagCompleter(QCompleter):
    """Completes the last tag of a list."""

    def __init__(self, tags: Sequence[str], parent: QWidget) -> None:
        super().__init__(parent)
        self.setModel(QStringListModel(list(tags), self))
        self.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)

    def splitPath(self, path: str) -> list[str]:
        """Complete the text after the last comma."""
        return [path.rpartition(",")[2].strip()]

    def pathFromIndex(self, index: object) -> str:
        """Return the whole text with the completed tag at its end."""
        tag = super().pathFromIndex(index)  # type: ignore[arg-type]
        field = self.widget()
        before = field.text().rpartition(",")[0] if isinstance(field, QLineEdit) else ""
        return f"{before}, {tag}" if before else tag
