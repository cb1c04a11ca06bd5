"""The line above a run of a script: what resuming means here; and the dialog with its details."""

from __future__ import annotations

import time

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QFormLayout, QFrame, QPushButton, QWidget

from engine.messages.events import CheckpointSaved, Notice
from engine.runs.run_info import RunInfo
from engine.runs.store.store_reader import StoredEvent
from gui.bridge.files.script_files import ScriptFacts, script_facts
from gui.style.theme import monospace_font
from gui.widgets.boxes import column_of, row_of, scrolled
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.plain_text import Label, set_wrapped_tip

_WIDTH = 620
_HEIGHT = 460
_MOST_NOTICES = 50

_REFRESH_SECONDS = 5.0
"""The script may have saved a checkpoint of its own meanwhile, which no event tells."""


class ScriptBar(QFrame):
    """Is hidden while the run is none of a script."""

    facts_changed = Signal(object)
    """ScriptFacts of the shown run; None: it is none of a script."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("card")
        self.text = ElidedLabel(objectName="mut")
        self.button = QPushButton("Details")
        self.button.setObjectName("low")
        self.button.setToolTip(
            "The command, its environment, and what Stop, Checkpoint and Resume do"
        )
        self.button.clicked.connect(self.show_details)
        row_of((self.text, 1), self.button, parent=self, margins=(12, 3, 6, 3))
        self._facts: ScriptFacts | None = None
        self._notices: list[str] = []
        self.clear()

    def clear(self) -> None:
        """Hide the line: another run is shown."""
        self._info: RunInfo | None = None
        self._shown: object = None
        self._shown_at = 0.0
        self._notices.clear()
        self._set_facts(None)

    def add_events(self, events: list[StoredEvent]) -> None:
        """Remember what the script's process has said about what it watches."""
        for stored in events:
            match stored.event:
                case Notice(text=text) if text not in self._notices:
                    self._notices.append(text)
                    del self._notices[:-_MOST_NOTICES]
                case CheckpointSaved():
                    self._shown = None  # a resume may begin elsewhere now
                case _:
                    pass

    def show_info(self, info: RunInfo) -> None:
        """Show the newest state of the run."""
        self._info = info
        shown = (info.id, info.state, info.status.attempt, info.spec)
        if shown == self._shown and time.monotonic() < self._shown_at + _REFRESH_SECONDS:
            return
        self._shown, self._shown_at = shown, time.monotonic()
        self._set_facts(script_facts(info) if info.spec.is_script else None)

    def show_details(self) -> None:
        """Open the dialog."""
        if self._facts is not None and self._info is not None:
            ScriptDialog(self._info.id, self._facts, self._notices, self.window()).open()

    def _set_facts(self, facts: ScriptFacts | None) -> None:
        self.setVisible(facts is not None)
        if facts is not None:
            text = f"Script: {facts.resuming}"
            if self._info is not None and not self._info.state.is_over:
                # The button Resume of a paused run means another thing.
                text = f"When this run is over: {facts.resuming}"
            self.text.setText(text)
            set_wrapped_tip(self.text, text)
        if facts != self._facts:
            self._facts = facts
            self.facts_changed.emit(facts)


class ScriptDialog(QDialog):
    """How a script was started, and what can be done with its run."""

    def __init__(
        self, run_id: str, facts: ScriptFacts, notices: list[str], parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(f"Script of run {run_id}")
        self.resize(_WIDTH, _HEIGHT)
        content = QWidget()
        content.setObjectName("content")
        self.rows = rows = QFormLayout(content)
        rows.setRowWrapPolicy(QFormLayout.RowWrapPolicy.WrapLongRows)
        rows.setHorizontalSpacing(14)
        rows.setVerticalSpacing(10)
        self._add("Command", facts.command, is_code=True)
        self._add("Folder", facts.folder, is_code=True)
        self._add("Python", facts.python, is_code=True)
        self._add("Variables", facts.variables, is_code=True)
        self._add("Resume", facts.resuming)
        self._add("Stop", facts.stopping)
        self._add("Checkpoint", facts.saving)
        self._add("Metrics", facts.figures)
        self._add("Notices", "\n".join(notices))
        area = scrolled(content)
        area.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        copy = buttons.addButton("Copy command", QDialogButtonBox.ButtonRole.ActionRole)
        copy.clicked.connect(lambda: QGuiApplication.clipboard().setText(facts.command))
        buttons.rejected.connect(self.reject)
        column_of((area, 1), buttons, parent=self)

    def _add(self, title: str, text: str, *, is_code: bool = False) -> None:
        if not text:
            return
        label, value = Label(title), Label(text)
        label.setObjectName("mut")
        value.setWordWrap(True)
        value.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        value.setAccessibleName(f"{title}: {text}")
        if is_code:
            value.setFont(monospace_font())
        self.rows.addRow(label, value)
