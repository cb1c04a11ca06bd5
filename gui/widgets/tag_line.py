"""A line for tags, which commas separate and which are completed from those in use."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QStringListModel, Qt
from PySide6.QtWidgets import QCompleter, QLineEdit, QWidget

from engine.runs.run_notes import tags_of


class TagLine(QLineEdit):
    """Edits the tags of a run."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setPlaceholderText("baseline, sweep")
        self._known = QStringListModel(self)
        self.setCompleter(_TagCompleter(self._known, self))

    def set_known(self, tags: Sequence[str]) -> None:
        """Offer these tags for completion."""
        if list(tags) != self._known.stringList():
            self._known.setStringList(list(tags))

    def tags(self) -> tuple[str, ...]:
        """Return the tags, in alphabetical order and each once."""
        return tags_of(self.text())


class _TagCompleter(QCompleter):
    """Completes the last tag of a list."""

    def __init__(self, tags: QStringListModel, parent: QWidget) -> None:
        super().__init__(parent)
        self.setModel(tags)
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
