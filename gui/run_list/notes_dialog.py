"""The dialog in which the user names a run, tags it and writes a note on it."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLineEdit,
    QPlainTextEdit,
    QVBoxLayout,
    QWidget,
)

from engine.runs.run_info import RunInfo
from engine.runs.run_notes import ChangedNotes, RunNotes, ordered_tags
from gui.widgets.tag_line import TagLine

_SIZE = (440, 300)


class NotesDialog(QDialog):
    """Edits the notes of one run, or adds tags to several runs."""

    written = Signal(object)
    """dict[str, ChangedNotes], by run id."""

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
        self.tags = TagLine()
        self.tags.set_known(known_tags)
        self.note = QPlainTextEdit(first.notes.note if len(infos) == 1 else "")
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
            self.resize(*_SIZE)
            self.removed = TagLine()
            self.removed.setAccessibleName(self.tr("Tags to remove"))
            common = sorted({tag for info in infos for tag in info.notes.tags}, key=str.casefold)
            self.removed.setPlaceholderText(", ".join(common) or self.tr("none has tags"))
            self.removed.setEnabled(bool(common))
            self.removed.set_known(common)
            form.addRow(self.tr("Add &tags"), self.tags)
            form.addRow(self.tr("&Remove tags"), self.removed)
            form.addRow(self.tr("Add to each n&ote"), self.note)
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
        tags = self.tags.tags()
        if len(self._infos) == 1:
            name, note = self.name.text().strip(), self.note.toPlainText().strip()
            new = {self._infos[0].id: RunNotes(name=name, tags=tags, note=note)}
        else:
            gone = {tag.casefold() for tag in self.removed.tags()}
            note = self.note.toPlainText().strip()
            new = {info.id: _changed(info.notes, tags, gone, note) for info in self._infos}
        before = {info.id: info.notes for info in self._infos}
        self.written.emit({id: ChangedNotes(before[id], notes) for id, notes in new.items()})


def _changed(notes: RunNotes, tags: tuple[str, ...], gone: set[str], note: str) -> RunNotes:
    """Return notes with more tags, without those in `gone`, and with `note` at their end."""
    kept = tuple(tag for tag in notes.tags if tag.casefold() not in gone)
    text = "\n\n".join(filter(None, (notes.note, note)))
    return RunNotes(name=notes.name, note=text, tags=ordered_tags(kept + tags))
