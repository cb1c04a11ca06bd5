"""The page Step: what made a step of a run, proved by its replay, with samples and layers."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import (
    QFrame,
    QGridLayout,
    QProgressBar,
    QPushButton,
    QSpinBox,
    QSplitter,
    QWidget,
)

from engine.planning.results import Doing, Replay
from gui.step.layer_table import LayerTable
from gui.step.sample_table import SampleTable, pixmap
from gui.step.step_strip import StepStrip
from gui.widgets.boxes import column_of, row_of
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.plain_text import Label, plain_tip

_LARGEST_STEP = 2**31 - 1
"""What the field can hold."""

_FIELD = 96
_PICTURE = 56
_TABLE_HEIGHT = 240
_BESIDE = 860
"""Width from which on the tables stand side by side, in logical pixels."""


class StepPage(QWidget):
    """Shows one replay; another step of the same run can be asked for."""

    back_clicked = Signal()
    stop_clicked = Signal()
    fork_clicked = Signal(int)
    """The step from which a new run goes on."""

    replay_wanted = Signal(int)
    """The step to train again; 0: the one that looks wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.shown_step = 0
        """The step whose evidence is shown; 0: none is."""

        self._last: Replay | None = None
        """What was shown last of the run."""

        self.back = QPushButton()
        self.title = Label(objectName="welcome")
        self.facts = ElidedLabel(objectName="note")
        self.step = QSpinBox()
        self.step.setRange(1, _LARGEST_STEP)
        self.step.setGroupSeparatorShown(True)
        self.step.setMinimumWidth(_FIELD)
        self.step.setAccessibleName("Step to replay")
        self.replay = QPushButton("Replay step")
        self.suspicious = QPushButton("Suspicious step")
        tip = "Replays the first step with a value that is not finite, else the largest outlier"
        self.suspicious.setToolTip(plain_tip(tip))
        self.fork = QPushButton("Fork here…")
        tip = "Continues from this step as a new run, with other settings"
        self.fork.setToolTip(plain_tip(tip))
        self.stop = QPushButton("Cancel")
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName("Progress of the replay")
        self.picture = Label()
        self.answer = Label(objectName="ttl", wordWrap=True)
        self.proof = Label(objectName="note", wordWrap=True)
        self.message = Label(objectName="note", wordWrap=True)
        self.notes = Label(objectName="note", wordWrap=True)
        for label in (self.answer, self.proof, self.message, self.notes):
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.strip = StepStrip()
        self.samples = SampleTable()
        self.layers = LayerTable()
        self._sample_title, self._layer_title = Label(), Label("Layers")
        self._lay_out()
        self.back.clicked.connect(self.back_clicked)
        self.stop.clicked.connect(self.stop_clicked)
        self.replay.clicked.connect(lambda: self.replay_wanted.emit(self.step.value()))
        self.step.valueChanged.connect(self._name_replay)
        self.step.lineEdit().returnPressed.connect(self.replay.click)
        self.fork.clicked.connect(lambda: self.fork_clicked.emit(self.shown_step))
        self.suspicious.clicked.connect(lambda: self.replay_wanted.emit(0))
        self.strip.step_chosen.connect(self.replay_wanted)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the tables below each other, and the buttons below the title, where it is narrow."""
        super().resizeEvent(event)
        sides = Qt.Orientation
        is_narrow = self.width() < _BESIDE
        self._tables.setOrientation(sides.Vertical if is_narrow else sides.Horizontal)
        self._top.addWidget(self._buttons, int(is_narrow), 0 if is_narrow else 3, 1, -1)

    @property
    def is_running(self) -> bool:
        """Whether a step of the run is replayed, or waits for that."""
        return self.stop.isVisibleTo(self)

    def show_run(self, run: str, facts: str, last: Replay | None = None, newest: int = 1) -> None:
        """Show that the page is about a run, with what was found last of it.

        `newest`: the step that the field offers where nothing was found.
        """
        self.back.setText(f"← Run {run}".rstrip())
        self.facts.setText(facts)
        self.title.setText("Step")
        self._last = last
        self.step.setValue(last.step if last else newest)
        hint = "Choose a step of the run: it is trained again, and looked into."
        self._end_with("" if last else hint)

    def begin(self, step: int) -> None:
        """Show that a step is replayed from now on; 0: the one that looks wrong."""
        self.title.setText(f"Step {step:,}" if step else "The suspicious step")
        if step:
            self.step.setValue(step)
        else:
            self.step.lineEdit().clear()
        self._show_evidence(None)
        self._say("The replay begins…")
        self._set_running(True)

    def show_doing(self, doing: Doing) -> None:
        """Show how far the replay is."""
        self.progress.setRange(0, doing.of)
        self.progress.setValue(doing.done)
        self._say(f"{doing.text[:1].upper()}{doing.text[1:]}…")

    def show_replay(self, found: Replay) -> None:
        """Show what a replay has found."""
        self._last = found
        self.step.setValue(found.step)
        self._end_with("")

    def show_refusal(self, text: str) -> None:
        """Say why a step is not replayed, beside what was found before."""
        self._end_with(text, "warning")

    def end(self) -> None:
        """Nothing is replayed any more."""
        if self.is_running:
            self._end_with("The replay was cancelled.")

    def _end_with(self, text: str, tone: str = "") -> None:
        """Show what was found last of the run, and a sentence."""
        self._set_running(False)
        self.step.setValue(self.step.value())  # the field is empty while its step is not known
        if self._last is not None:
            self.title.setText(f"Step {self._last.step:,}")
        self._show_evidence(self._last)
        self._say(text, tone)

    def _say(self, text: str, tone: str = "") -> None:
        self.message.setVisible(bool(text))
        _write(self.message, text, tone)

    def _name_replay(self) -> None:
        is_shown = self.step.value() == self.shown_step
        self.replay.setText("Replay again" if is_shown else "Replay step")

    def _set_running(self, running: bool) -> None:
        for part in (self.stop, self.progress):
            part.setVisible(running)
        for button in (self.replay, self.suspicious):
            button.setEnabled(not running)
        if running:
            self.progress.setRange(0, 0)

    def _show_evidence(self, found: Replay | None) -> None:
        """Show answer, proof, steps, samples and layers of a replay; None: nothing of them."""
        self.shown_step = found.step if found else 0
        self._name_replay()
        self.fork.setVisible(bool(found and not found.difference))
        seen = found.inspection if found else None
        self.answer.setText(seen.answer if seen else "")
        self.answer.setVisible(bool(seen))
        shown = pixmap(seen.samples[0].inputs.picture, _PICTURE) if seen and seen.samples else None
        self.picture.setVisible(shown is not None)
        if shown is not None:
            self.picture.setPixmap(shown)
        if found is not None:
            origin = f"checkpoint {found.checkpoint}" if found.checkpoint else "the beginning"
            proof = f"{found.sentence} From {origin}, in {found.seconds:.0f} s."
            tone = "warning" if found.difference else "good"
            _write(self.proof, " ".join((proof, *found.reasons)), tone)
        self.proof.setVisible(found is not None)
        self.notes.setText(" ".join(seen.notes) if seen else "")
        self.notes.setVisible(bool(self.notes.text()))
        self.strip.show_steps(found.around if found else (), found.step if found else 0)
        self._strip_card.setVisible(bool(found and found.around))
        self.samples.show_samples(seen.samples if seen else ())
        self.layers.show_layers(seen.layers if seen else (), seen.parameters if seen else ())
        count = seen.samples_in_all if seen else 0
        shown_count = len(seen.samples) if seen else 0
        is_part = shown_count < count
        more = f"{shown_count:,} of {count:,}, the most suspicious" if is_part else f"{count:,}"
        self._sample_title.setText(f"Samples  {more}")
        self._tables.setVisible(bool(seen))

    def _lay_out(self) -> None:
        self._buttons = QWidget()
        row_of(self.step, self.replay, self.suspicious, parent=self._buttons, margins=0)
        self._top = QGridLayout()
        self._top.setHorizontalSpacing(8)
        self._top.addWidget(self.back, 0, 0)
        self._top.addWidget(self.title, 0, 1)
        self._top.addWidget(self.facts, 0, 2)
        self._top.addWidget(self._buttons, 0, 3)
        self._top.setColumnStretch(2, 1)
        card = QFrame()
        card.setObjectName("card")
        inside = QGridLayout(card)
        inside.setContentsMargins(14, 12, 14, 12)
        inside.setHorizontalSpacing(12)
        inside.setVerticalSpacing(4)
        inside.addWidget(self.picture, 0, 0, 4, 1, Qt.AlignmentFlag.AlignTop)
        inside.addWidget(self.answer, 0, 1, 1, 2)
        inside.addWidget(self.proof, 1, 1)
        inside.addWidget(self.fork, 1, 2)
        inside.addWidget(self.message, 2, 1)
        inside.addWidget(self.stop, 2, 2)
        inside.addWidget(self.progress, 3, 1, 1, 2)
        inside.addWidget(self.notes, 4, 1, 1, 2)
        inside.setColumnStretch(1, 1)
        self._strip_card = _card(self.strip)
        self._tables = QSplitter(Qt.Orientation.Horizontal)
        self._tables.setChildrenCollapsible(False)
        self._tables.addWidget(_card(self._sample_title, self.samples))
        self._tables.addWidget(_card(self._layer_title, self.layers))
        self._tables.setSizes([5000, 6000])  # shares: layers have more columns
        for table in (self.samples, self.layers):
            table.setMinimumHeight(_TABLE_HEIGHT)
        column_of(self._top, card, self._strip_card, (self._tables, 1), 0, parent=self, spacing=8)
        self._set_running(False)
        self.show_run("", "")


def _write(label: Label, text: str, tone: str) -> None:
    label.setText(text)
    label.setProperty("tone", tone)
    label.style().polish(label)


def _card(*parts: QWidget) -> QFrame:
    card = QFrame()
    card.setObjectName("card")
    for part in parts[:-1]:
        part.setObjectName("ttl")
    column_of(*parts[:-1], (parts[-1], 1), parent=card, margins=8, spacing=6)
    return card
