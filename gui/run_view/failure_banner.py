"""The banner that says why a run failed, or which troubles an active run has."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QPushButton, QWidget

from engine.files.log_tail import terminal_text
from engine.messages.events import AttemptStarted, Failure, RunEnded
from engine.runs.run_info import RunInfo
from engine.runs.run_state import RunState
from engine.runs.store.store_reader import StoredEvent
from gui.bridge.files.editor import Place, place_in
from gui.style.device_labels import name_devices
from gui.style.state_style import state_sentence
from gui.style.theme import monospace_font
from gui.widgets.boxes import column_of, row_of
from gui.widgets.plain_text import Label, set_wrapped_tip

HOLDS_SAMPLES = "It may hold samples of your data."
"""A warning for the user who saves or sends a failure file: the failed batch is in it."""

_MAX_LINES = 7
"""Visible lines of the log; one scrolls to the others."""

_MOST_DETAILS = 12
"""Lines that an exception has beside its message and that are shown; the log has all of them."""


class FailureBanner(QFrame):
    """Shows the failure, the failed rank, and the last lines of its log, until it is dismissed."""

    edit_clicked = Signal(object)
    """Place at which the run failed, to be opened in an editor."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._labels: dict[str, str] = {}
        self.setObjectName("banner")
        self.sentence = Label(objectName="problem", wordWrap=True)
        self.facts = Label(objectName="mut", wordWrap=True)
        self.details = Label(wordWrap=True)
        self.log_title = Label("Last lines of its log, from before it failed:", objectName="mut")
        for label in (self.sentence, self.details, self.facts):
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.log = QPlainTextEdit()
        self.log.setReadOnly(True)
        self.log.setFont(monospace_font())
        self.log.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.log.setAccessibleName("Last lines of the log")
        self.edit = QPushButton("Open in editor")
        self.edit.clicked.connect(lambda: self.edit_clicked.emit(self._place))
        self.save = QPushButton("Save failure file…")
        set_wrapped_tip(
            self.save,
            "One file of at most 10 MB, without secrets, to send to somebody: `traindeck open` "
            "shows it on another machine, and its repro.py does the failed step again. "
            f"{HOLDS_SAMPLES}",
        )
        self.stop = QPushButton("Stop the run")
        self.dismiss = QPushButton("Dismiss")
        self.dismiss.clicked.connect(self.hide)
        top = row_of(
            (self.sentence, 1),
            (self.edit, 0, Qt.AlignmentFlag.AlignTop),
            (self.save, 0, Qt.AlignmentFlag.AlignTop),
            (self.stop, 0, Qt.AlignmentFlag.AlignTop),
            (self.dismiss, 0, Qt.AlignmentFlag.AlignTop),
        )
        column_of(
            top,
            self.details,
            self.facts,
            self.log_title,
            self.log,
            parent=self,
            margins=(12, 8, 10, 8),
            spacing=4,
        )
        self.clear()

    def set_device_names(self, labels: Mapping[str, str]) -> None:
        """Set the display name of each device, by its id."""
        if labels != self._labels:
            self._labels = dict(labels)
            for label in (self.sentence, self.facts):
                label.setText(self.with_device_names(label.text()))

    def clear(self) -> None:
        """Hide the banner: another run is shown, or the run continues."""
        self._failure: Failure | None = None
        self._place: Place | None = None
        self._shown_reason = ""
        self.hide()

    def add_events(self, events: list[StoredEvent]) -> None:
        """Remember the failure that ends the newest attempt."""
        for stored in events:
            match stored.event:
                case AttemptStarted():
                    self.clear()
                case RunEnded(failure=failure):
                    self._failure = failure
                case _:
                    pass

    def show_info(self, info: RunInfo) -> None:
        """Show the banner once for each failure, interruption or list of troubles."""
        if info.state not in (RunState.FAILED, RunState.INTERRUPTED):
            self._show_troubles(info)
            return
        sentence = info.reason or state_sentence(info.state)
        if sentence == self._shown_reason:
            return
        self._shown_reason = sentence
        failure = self._failure if info.state is RunState.FAILED else None
        text = f"⚠ Run {info.id} was interrupted: {sentence}"
        if info.state is RunState.FAILED:
            text = f"⚠ Run {info.id} failed: {sentence}"
        self.sentence.setText(self.with_device_names(text))
        details = short_details(failure) if failure else ""
        self.details.setText(details)
        self.details.setVisible(bool(details))
        facts = failure_facts(failure) if failure else ""
        self.facts.setText(self.with_device_names(facts))
        self.facts.setVisible(bool(facts))
        tail = terminal_text(failure.log_tail).rstrip() if failure else ""
        self.log.setPlainText(tail)
        self.log.setVisible(bool(tail))
        self.log_title.setVisible(bool(tail))
        self._fit_log()
        self.log.verticalScrollBar().setValue(self.log.verticalScrollBar().maximum())
        self.stop.hide()
        self.save.setVisible(info.state is RunState.FAILED)
        self._show_place(failure)
        self.show()

    def with_device_names(self, text: str) -> str:
        """Return `text` with display names in place of device ids."""
        return name_devices(text, self._labels)

    def _fit_log(self) -> None:
        """Make the log as high as its lines, with space for a horizontal scroll bar."""
        lines = min(self.log.blockCount(), _MAX_LINES)
        bar = self.log.horizontalScrollBar().sizeHint().height()
        margin = 2 * int(self.log.document().documentMargin())
        self.log.setFixedHeight(lines * self.log.fontMetrics().lineSpacing() + margin + bar)

    def _show_place(self, failure: Failure | None) -> None:
        self._place = place_in(failure.where) if failure else None
        self.edit.setVisible(self._place is not None)
        if self._place:
            tip = (
                f"{self._place.file}, line {self._place.line}: the editor is chosen under "
                "File → Editor…"
            )
            set_wrapped_tip(self.edit, tip)

    def _show_troubles(self, info: RunInfo) -> None:
        sentences = " ".join(info.status.troubles.values())
        if sentences == self._shown_reason:
            return
        self._shown_reason = sentences
        self.sentence.setText(f"⚠ Run {info.id}: {sentences}")
        hidden = (self.details, self.facts, self.log_title, self.log, self.edit, self.save)
        for widget in hidden:
            widget.hide()
        self.stop.show()
        self.setVisible(bool(sentences))


def short_details(failure: Failure) -> str:
    """Return the first lines of what the exception says beside its message."""
    lines = terminal_text(failure.details).splitlines()
    if len(lines) > _MOST_DETAILS:
        more = f"… and {len(lines) - _MOST_DETAILS} more lines, which the log has"
        lines[_MOST_DETAILS:] = [more]
    return "\n".join(lines)


def failure_facts(failure: Failure) -> str:
    """Rank, device, signal or exit code, and place: `rank 1 · cpu:1 · SIGKILL`."""
    parts = []
    if failure.rank >= 0:
        parts.append(f"rank {failure.rank}")
    if failure.device:
        parts.append(failure.device)
    if failure.signal:
        parts.append(failure.signal)
    elif failure.exit_code:
        parts.append(f"exit code {failure.exit_code}")
    if failure.where:
        parts.append(f"in {failure.where}")
    return " · ".join(parts)
