"""The card that says where two runs begin to differ: the step, what differs first, and why."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QFontDatabase, QGuiApplication
from PySide6.QtWidgets import QFrame, QPlainTextEdit, QProgressBar, QPushButton, QWidget

from engine.planning.results import Divergence, Doing
from gui.overview.text_dialog import DiffColours
from gui.style.theme import theme_of
from gui.widgets.boxes import STRETCH, column_of, row_of
from gui.widgets.layouts.fitting_scroll import FittingScroll
from gui.widgets.plain_text import Label

_HEIGHT = 230
"""The most that it takes from the plots, in logical pixels; then it scrolls."""

_LINES = 7
"""Lines of the recipes that are in sight."""

_MOST_CAUSES = 8


class PartingCard(QFrame):
    """Shows one search: how far it is, and its answer or why there is none."""

    stop_clicked = Signal()
    close_clicked = Signal()
    step_clicked = Signal(int, int)
    """The place of one of the two runs, and the step of it to look into."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("card")
        self._step = 0
        self.answer, self.curves, self.causes, self.notes = (Label() for _ in range(4))
        self.answer.setObjectName("ttl")
        for label in (self.curves, self.causes, self.notes):
            label.setObjectName("note")
        for label in self._texts():
            label.setWordWrap(True)
            label.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self.lines = QPlainTextEdit()
        self.lines.setReadOnly(True)
        self.lines.setAccessibleName("Lines in which the recipes differ")
        self.lines.setLineWrapMode(QPlainTextEdit.LineWrapMode.NoWrap)
        self.lines.setFont(QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont))
        self._colours = DiffColours(self.lines.document(), theme_of(QGuiApplication.palette()))
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName("Progress of the search")
        self.stop = QPushButton("Cancel")
        self.steps = (QPushButton(), QPushButton())
        self.close_button = QPushButton("Hide")
        self.close_button.setAccessibleName("Hide where the runs part")
        self._lay_out()
        self.stop.clicked.connect(self.stop_clicked)
        self.close_button.clicked.connect(self.close_clicked)
        for place, button in enumerate(self.steps):
            button.clicked.connect(lambda *_, at=place: self.step_clicked.emit(at, self._step))

    def begin(self, runs: Sequence[str]) -> None:
        """Show that two runs are compared from now on."""
        self._clear()
        self.answer.setText(f"Where do run {runs[0]} and run {runs[1]} part?")
        self.curves.setText("The search begins…")
        self.curves.show()
        self._set_running(True)

    def show_doing(self, doing: Doing) -> None:
        """Show how far the search is."""
        self.progress.setRange(0, doing.of)
        self.progress.setValue(doing.done)
        self.curves.setText(f"{doing.text[:1].upper()}{doing.text[1:]}…")

    def show_refusal(self, text: str) -> None:
        """Say why two runs are not compared."""
        self._clear()
        self.answer.setText(text)

    def show_found(self, found: Divergence, runs: Sequence[str]) -> None:
        """Show where the runs part; `runs`: what the window calls them."""
        self._clear()
        self._step = found.step
        self.answer.setText(found.answer)
        names = [f"{each.title}: {_pair(each.first, each.second)}" for each in found.settings]
        more = len(names) - _MOST_CAUSES
        shown = [*names[:_MOST_CAUSES], *([f"{more:,} more"] if more > 0 else [])]
        for label, text in (
            (self.curves, f"{found.curves} Found in {found.seconds:.0f} s."),
            (self.causes, f"Settings that differ: {' · '.join(shown)}" if shown else ""),
            (self.notes, " ".join(found.notes)),
        ):
            label.setText(text)
            label.setVisible(bool(text))
        self.lines.setPlainText("\n".join(found.recipe))
        height = self.lines.fontMetrics().lineSpacing() * min(len(found.recipe), _LINES)
        self.lines.setFixedHeight(height + 16)
        self.lines.setVisible(bool(found.recipe))
        for button, run in zip(self.steps, runs, strict=True):
            button.setText(f"Step {found.step:,} of run {run}")
            button.setVisible(bool(found.step))

    def end(self) -> None:
        """Nothing is searched any more."""
        if self.stop.isVisibleTo(self):
            self.show_refusal("The search was cancelled.")

    def set_theme(self) -> None:
        """Draw the lines in the colours of the theme that the palette has now."""
        self._colours.set_theme(theme_of(QGuiApplication.palette()))

    def _texts(self) -> tuple[Label, ...]:
        return self.answer, self.curves, self.causes, self.notes

    def _clear(self) -> None:
        self._set_running(False)
        for part in (self.curves, self.causes, self.notes, self.lines, *self.steps):
            part.hide()

    def _set_running(self, running: bool) -> None:
        for part in (self.stop, self.progress):
            part.setVisible(running)
        self.close_button.setVisible(not running)
        if running:
            self.progress.setRange(0, 0)

    def _lay_out(self) -> None:
        content = QWidget()
        buttons = row_of(STRETCH, *self.steps, self.stop, self.close_button)
        shown = (self.answer, self.curves, self.progress, self.causes, self.lines, self.notes)
        column_of(*shown, parent=content, margins=0, spacing=4)
        scroll = FittingScroll(content, 0)
        scroll.setMaximumHeight(_HEIGHT)
        scroll.setAccessibleName("Where the runs part")
        column_of(scroll, buttons, parent=self, margins=(12, 8, 12, 8), spacing=6)
        self._clear()


def _pair(first: str, second: str) -> str:
    return f"{first or 'none'} and {second or 'none'}"
