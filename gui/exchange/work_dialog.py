"""What both dialogs share: a form, below it the progress or the result, and the buttons."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QFormLayout, QLineEdit, QProgressBar, QPushButton, QWidget

from gui.bridge.exchange import Exchange
from gui.widgets.boxes import STRETCH, column_of, row_of
from gui.widgets.layouts.fit_height import fit_height
from gui.widgets.plain_text import Label

MOST_REMARKS = 8
"""Sentences about what was left out that are shown."""

_WIDTH = 560


class WorkDialog(QDialog):
    """Does not block the window: runs are watched while it works. Closed, it cancels its work."""

    def __init__(self, title: str, begin: str, exchange: Exchange, parent: QWidget) -> None:
        """`begin`: the text of the button that begins the work."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(title)
        self.setMinimumWidth(_WIDTH)
        self._exchange = exchange
        self.is_working = False
        self.about = Label(wordWrap=True)
        self.fields = QWidget()
        self.form = QFormLayout(self.fields)
        self.form.setContentsMargins(0, 0, 0, 0)
        self.form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.ExpandingFieldsGrow)
        self.bar = QProgressBar()
        self.bar.setAccessibleName("Progress")
        self.bar.setRange(0, 1000)
        self.bar.setTextVisible(False)
        self.bar.setFixedHeight(6)
        self.outcome = Label(wordWrap=True)
        self.outcome.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse
            | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.show_button = QPushButton()
        self.show_button.hide()
        self.cancel = QPushButton("Cancel")
        self.cancel.setAutoDefault(False)
        self.show_button.setAutoDefault(False)
        self.begin = QPushButton(begin)
        self.begin.setObjectName("go")
        self.begin.setDefault(True)
        self.begin.clicked.connect(self._begin)
        self.cancel.clicked.connect(self._cancel)
        buttons = row_of(STRETCH, self.show_button, self.cancel, self.begin)
        column_of(
            self.about,
            self.fields,
            self.bar,
            self.outcome,
            STRETCH,
            buttons,
            parent=self,
            spacing=10,
        )
        exchange.progress.connect(self._show_progress)
        exchange.failed.connect(self._failed)
        self._show_work(False)

    def work(self) -> None:
        """Begin the work; a subclass does so."""
        raise NotImplementedError

    def problem(self) -> str:
        """Return why the work cannot begin, in a sentence; empty: it can."""
        return ""

    def done_with(self, sentence: str, button: str = "") -> None:
        """Say what was done; `button` is the text of the one that shows it."""
        if not self.is_working:
            return
        self._show_work(False)
        self.show_outcome(sentence)
        self.cancel.setText("Close")
        self.show_button.setText(button)
        self.show_button.setVisible(bool(button))

    def show_outcome(self, sentence: str, *, is_problem: bool = False) -> None:
        """Show a sentence below the form."""
        self.outcome.setObjectName("problem" if is_problem else "")
        self.outcome.style().polish(self.outcome)
        self.outcome.setText(sentence)
        self.outcome.setVisible(bool(sentence))
        fit_height(self)

    def done(self, result: int) -> None:
        """In whichever way it is closed, its work is cancelled."""
        if self.is_working:
            self._exchange.cancel()
        super().done(result)

    def _begin(self) -> None:
        problem = self.problem()
        self.show_outcome(problem, is_problem=bool(problem))
        if problem:
            return
        self.show_button.hide()
        self.cancel.setText("Cancel")
        self._show_work(True)
        self.work()

    def _cancel(self) -> None:
        if self.is_working:
            self._exchange.cancel()
        else:
            self.close()

    def _show_progress(self, what: str, done: int, total: int) -> None:
        if self.is_working:
            self.bar.setValue(1000 * done // max(1, total))
            self.bar.setAccessibleDescription(what)

    def _failed(self, sentence: str) -> None:
        if self.is_working:
            self._show_work(False)
            self.show_outcome(
                sentence or "Cancelled: nothing was written.", is_problem=bool(sentence)
            )

    def _show_work(self, working: bool) -> None:
        self.is_working = working
        self.fields.setEnabled(not working)
        self.begin.setEnabled(not working)
        self.bar.setValue(0)
        self.bar.setVisible(working)


def path_row(line: QLineEdit, *buttons: QPushButton) -> QWidget:
    """Return a line for a path with its buttons beside it."""
    row = QWidget()
    layout = row_of((line, 1), parent=row, margins=0, spacing=6)
    for button in buttons:
        button.setAutoDefault(False)
        layout.addWidget(button)
    return row
