"""The row of the form in which the user names and tags the run before its start."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QLineEdit, QWidget

from gui.widgets.boxes import row_of
from gui.widgets.plain_text import Label, set_wrapped_tip
from gui.widgets.tag_line import TagLine


class NameRow(QWidget):
    """A line for the name and one for the tags; both may stay empty."""

    changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.label = Label("Na&me")
        self.name = QLineEdit()
        self.name.setAccessibleName("Name of the run")
        set_wrapped_tip(self.name, "Name of the next run. Empty: the name of its recipe or script.")
        self.tags = TagLine()
        self.tags.setPlaceholderText("tags")
        self.tags.setAccessibleName("Tags of the run")
        set_wrapped_tip(
            self.tags, "Tags of the next runs, separated by commas, to search and group by."
        )
        self.label.setBuddy(self.name)
        self.setFocusProxy(self.name)
        row_of((self.name, 3), (self.tags, 2), parent=self, margins=0, spacing=6)
        for line in (self.name, self.tags):
            line.textChanged.connect(self.changed)
            line.editingFinished.connect(partial(line.setCursorPosition, 0))  # show its beginning

    def show_default(self, name: str) -> None:
        """Show the name that a run without one gets."""
        self.name.setPlaceholderText(name)

    def entered_name(self) -> str:
        """Return the name of the next run; empty: the default."""
        return self.name.text().strip()

    def entered_tags(self) -> tuple[str, ...]:
        """Return the tags of the next run."""
        return self.tags.tags()

    def set_known_tags(self, tags: Sequence[str]) -> None:
        """Offer these tags for completion."""
        self.tags.set_known(tags)

    def take_back_name(self) -> None:
        """Forget the name, which belongs to one run; the tags stay for the next one."""
        self.name.clear()
