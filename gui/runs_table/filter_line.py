"""The line for the filter: words are completed, and what is wrong is marked and said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QPoint, QStringListModel, Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent
from PySide6.QtWidgets import QCompleter, QFrame, QLineEdit, QListView, QWidget

from engine.runs.run_info import RunInfo
from engine.runs.table.columns import Column
from engine.runs.table.completion import completions
from engine.runs.table.grammar import FilterError
from gui.widgets.boxes import column_of
from gui.widgets.plain_text import Label, plain_tip

PAUSE_MS = 120
"""After the last key, before the filter is applied."""


class Problem(QFrame):
    """What is wrong with the filter, over the table: nothing moves while the user types."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._page = parent
        self.setObjectName("card")
        self.text = Label(objectName="note", wordWrap=True)
        self.text.setProperty("tone", "bad")
        column_of(self.text, parent=self, margins=(8, 5, 8, 5))
        self.hide()

    def show_text(self, sentence: str, line: QWidget) -> None:
        """Show a sentence below `line`; nothing if it is empty."""
        self.text.setText(sentence)
        self.setVisible(bool(sentence))
        self.place(line)

    def place(self, line: QWidget) -> None:
        """Move to the lower edge of `line`."""
        if self.isHidden():
            return
        self.setFixedWidth(max(260, line.width()))
        self.adjustSize()
        self.move(line.mapTo(self._page, QPoint(0, line.height() + 3)))
        self.raise_()


class FilterLine(QLineEdit):
    """Emits `changed` when the user pauses, and at once with Return."""

    changed = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._columns: Mapping[str, Column] = {}
        self._infos: Sequence[RunInfo] = ()
        self._words = QStringListModel(self)
        self._begin = 0
        self._help = (
            "Such as lr < 1e-3 and val/accuracy > 0.9, tag:paper, created > -7d, "
            "best(val/loss) < 0.1, name ~ resnet, or a text in quotes"
        )
        self.setPlaceholderText("lr < 1e-3 and val/accuracy > 0.9")
        self.setAccessibleName("Filter of the runs")
        self.setToolTip(plain_tip(self._help))
        self.setClearButtonEnabled(True)
        self.setMinimumWidth(150)
        self.popup = QCompleter(self._words, self)
        self.popup.setWidget(self)
        self._list = QListView()
        self.popup.setPopup(self._list)
        self.popup.setCompletionMode(QCompleter.CompletionMode.UnfilteredPopupCompletion)
        self.popup.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self.popup.activated[str].connect(self._insert)  # type: ignore[index]
        self._pause = QTimer(self, singleShot=True, interval=PAUSE_MS)
        self._pause.timeout.connect(self._apply)
        self.textChanged.connect(lambda: self._pause.start())
        self.textEdited.connect(self._offer)
        self.returnPressed.connect(self._apply)

    def set_known(self, columns: Mapping[str, Column], infos: Sequence[RunInfo]) -> None:
        """Set the names and the runs from which words are completed."""
        self._columns, self._infos = columns, infos

    def show_problem(self, problem: FilterError | None) -> None:
        """Outline the line, and say what is wrong; None: nothing is."""
        is_faulty = problem is not None
        text = self.text()
        if problem is not None:
            part = text[problem.begin : problem.end].strip()
            where = f"At “{part}”: " if part else ""
            self.setToolTip(plain_tip(f"{where}{problem}\n\n{self._help}"))
            self.setAccessibleDescription(str(problem))
        else:
            self.setToolTip(plain_tip(self._help))
            self.setAccessibleDescription(self._help)
        if self.property("fault") != is_faulty:
            self.setProperty("fault", is_faulty)
            self.style().polish(self)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Leave the keys of the list of words to it; Escape closes it, or clears the line."""
        shown = self._list.isVisible()
        is_accepting = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Tab)
        if shown and (is_accepting or event.key() == Qt.Key.Key_Escape):
            event.ignore()
            return
        if event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
            return
        if event.key() == Qt.Key.Key_Space and event.modifiers() & (
            Qt.KeyboardModifier.ControlModifier
        ):
            self._offer()
            return
        super().keyPressEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Apply what was typed."""
        super().focusOutEvent(event)
        if self._pause.isActive():
            self._apply()

    def _apply(self) -> None:
        self._pause.stop()
        self.changed.emit(self.text())

    def _offer(self, *_: str) -> None:
        found = completions(self.text(), self.cursorPosition(), self._columns, self._infos)
        if not found.words or not self.hasFocus():
            self._list.hide()
            return
        self._begin = found.begin
        self._words.setStringList(found.words)
        rect = self.cursorRect()
        width = self._list.sizeHintForColumn(0)
        rect.setWidth(max(200, width + 40))
        self.popup.complete(rect)

    def _insert(self, word: str) -> None:
        end = self.cursorPosition()
        text = self.text()
        self.setText(f"{text[: self._begin]}{word}{text[end:]}")
        self.setCursorPosition(self._begin + len(word))
