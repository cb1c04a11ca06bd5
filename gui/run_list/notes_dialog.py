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
from gui.widgets.plain_text import Label
from gui.widgets.tag_line import TagLine

_SIZE = (440, 300)


class NotesDialog(QDialog):
    """Edits the notes of one run, or adds tags to several runs.

    It stays open until they are written: what was typed is not lost to a full disk, or a machine
    that does not answer.
    """

    wanted = Signal(object)
    """dict[str, ChangedNotes], by run id: to be written; see `end` and `show_failure`."""

    def __init__(
        self, infos: Sequence[RunInfo], known_tags: Sequence[str], parent: QWidget | None = None
    ) -> None:
        """`infos` are the runs, at least one; `known_tags` are offered for completion."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._infos = infos
        self._sent: object = None
        """What is being written."""

        first = infos[0]
        self.name = QLineEdit(first.notes.name)
        self.name.setPlaceholderText(first._replace(notes=RunNotes()).name)
        self.tags = TagLine()
        self.tags.set_known(known_tags)
        self.note = QPlainTextEdit(first.notes.note if len(infos) == 1 else "")
        self.note.setTabChangesFocus(True)
        form = QFormLayout()
        if len(infos) == 1:
            self.setWindowTitle(f"Name, tags and note of run {first.id}")
            self.resize(*_SIZE)
            self.tags.setText(", ".join(first.notes.tags))
            form.addRow("&Name", self.name)
            form.addRow("&Tags", self.tags)
            form.addRow("N&ote", self.note)
        else:
            self.setWindowTitle(f"Tag {len(infos)} runs")
            self.resize(*_SIZE)
            self.removed = TagLine()
            self.removed.setAccessibleName("Tags to remove")
            common = sorted({tag for info in infos for tag in info.notes.tags}, key=str.casefold)
            self.removed.setPlaceholderText(", ".join(common) or "none has tags")
            self.removed.setEnabled(bool(common))
            self.removed.set_known(common)
            form.addRow("Add &tags", self.tags)
            form.addRow("&Remove tags", self.removed)
            form.addRow("Add to each n&ote", self.note)
            self.tags.setMinimumWidth(280)
        for field, title in ((self.name, "Name"), (self.tags, "Tags"), (self.note, "Note")):
            field.setAccessibleName(title)
        roles = QDialogButtonBox.StandardButton
        self.buttons = QDialogButtonBox(roles.Save | roles.Cancel)
        self.buttons.button(roles.Save).setObjectName("go")
        layout = QVBoxLayout(self)
        self.problem = Label(objectName="problem", wordWrap=True)
        self.problem.hide()
        layout.addLayout(form)
        layout.addWidget(self.problem)
        layout.addWidget(self.buttons)
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)

    def accept(self) -> None:
        """Have the notes written; then it closes."""
        self._show_writing(writing=True)
        self._sent = self._changes()
        self.wanted.emit(self._sent)

    def end(self, notes: object) -> None:
        """Close, if these `notes` that were written are those of this dialog."""
        if notes is self._sent:
            super().accept()

    def show_failure(self, notes: object, sentence: str) -> None:
        """Say why `notes` were not written, if they are those of this dialog."""
        if notes is self._sent:
            self._show_writing(writing=False)
            self.problem.setText(sentence)
            self.problem.show()

    def _show_writing(self, *, writing: bool) -> None:
        self.buttons.button(QDialogButtonBox.StandardButton.Save).setEnabled(not writing)
        self.problem.hide()

    def _changes(self) -> dict[str, ChangedNotes]:
        tags = self.tags.tags()
        if len(self._infos) == 1:
            name, note = self.name.text().strip(), self.note.toPlainText().strip()
            new = {self._infos[0].id: RunNotes(name=name, tags=tags, note=note)}
        else:
            gone = {tag.casefold() for tag in self.removed.tags()}
            note = self.note.toPlainText().strip()
            new = {info.id: _changed(info.notes, tags, gone, note) for info in self._infos}
        before = {info.id: info.notes for info in self._infos}
        return {id: ChangedNotes(before[id], notes) for id, notes in new.items()}


def _changed(notes: RunNotes, tags: tuple[str, ...], gone: set[str], note: str) -> RunNotes:
    """Return notes with more tags, without those in `gone`, and with `note` at their end."""
    kept = tuple(tag for tag in notes.tags if tag.casefold() not in gone)
    text = "\n\n".join(filter(None, (notes.note, note)))
    return RunNotes(name=notes.name, note=text, tags=ordered_tags(kept + tags))
