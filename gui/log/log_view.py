"""The tab Log: what the workers print, and the run's events between their lines."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QRawFont, QResizeEvent, QShowEvent, QTextBlock, QTextCursor
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from engine.runs.store_reader import StoredEvent
from gui.log.log_highlighter import LogHighlighter
from gui.log.log_lines import Line, event_line, is_error, output_line
from gui.log.missing_glyphs import MissingGlyphs
from gui.style.device_labels import name_devices
from gui.style.theme import Theme, monospace_font

MAX_LINES = 10_000
COUNT_MS = 300
"""From new lines to the new number of matches."""


class LogView(QPlainTextEdit):
    """At most MOST_LINES lines; keeps to the end unless scrolled away."""

    matches = Signal(int, int)
    """Which of the lines with the text looked for the cursor is on, from 1 (0: on none), and how
    many there are."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._lines: deque[Line] = deque(maxlen=MAX_LINES)
        self.is_whole = True
        """Every line that was printed is here, shown or hidden."""

        self._labels: Mapping[str, str] = {}
        self._search_text = ""
        self._rank: int | None = None
        self._hides = True
        self.setAccessibleName(self.tr("Log"))
        self.setReadOnly(True)
        self._missing_glyphs = MissingGlyphs(QRawFont.fromFont(monospace_font()))
        self.setMaximumBlockCount(MAX_LINES)
        self.setFont(monospace_font())
        self.setPlaceholderText(self.tr("What the workers print appears here."))
        self._highlighter = LogHighlighter(self.document(), theme)
        self._recount = QTimer(self)
        self._recount.setSingleShot(True)
        self._recount.setInterval(COUNT_MS)
        self._recount.timeout.connect(self.count)
        self.cursorPositionChanged.connect(self._count_soon)

    def set_theme(self, theme: Theme) -> None:
        """Colour the lines for `theme`."""
        self._highlighter.set_theme(theme)

    def append_output(self, rank: int, lines: list[str]) -> None:
        """Add lines that worker `rank` printed; when it did is not known."""
        self._append([output_line(rank, self._missing_glyphs.drawable(line)) for line in lines])

    def append_events(self, events: list[StoredEvent]) -> None:
        """Add events, oldest first."""
        self._append([self._with_device_names(event_line(stored)) for stored in events])

    def set_device_names(self, labels: Mapping[str, str]) -> None:
        """What to call each device, by its id, in what the engine says."""
        if labels == self._labels:
            return
        self._labels = dict(labels)
        lines = [self._with_device_names(line) for line in self._lines]
        if lines != list(self._lines):
            self._lines = deque(lines, maxlen=MAX_LINES)
            self._show_all()

    def clear_lines(self) -> None:
        """Drop every line: another run is shown."""
        self.is_whole = True
        self._lines.clear()
        self.clear()
        self.count()

    def note_skipped_lines(self) -> None:
        """Remember that lines were printed that do not come here."""
        self.is_whole = False

    def set_filter(self, text: str) -> None:
        """Look for `text`, in whatever case: show only lines with it, or all and mark it."""
        if text.casefold() == self._search_text:
            return
        self._search_text = text.casefold()
        self._highlighter.set_search_text(self._search_text)
        self._show_all()

    def set_hiding(self, hides: bool) -> None:
        """Whether lines without the text looked for are hidden."""
        self._hides = hides
        self._show_all()

    def set_rank(self, rank: int | None) -> None:
        """Show only what this rank says (-1: the supervisor); None: everybody."""
        self._rank = rank
        self._show_all()

    def find_again(self, *, backwards: bool = False) -> bool:
        """Go to the next line that has the text looked for, round the end; False if none has."""
        if not self._search_text:
            return False
        block = self.textCursor().block()
        for _ in range(self.blockCount()):
            block = block.previous() if backwards else block.next()
            if not block.isValid():
                document = self.document()
                block = document.lastBlock() if backwards else document.firstBlock()
            if self._search_text in block.text().casefold():
                self._go_to(block)
                self.count()
                return True
        return False

    def count(self) -> None:
        """Say in `matches` how many lines that are shown have the text looked for."""
        self._recount.stop()
        if not self._search_text:
            self.matches.emit(0, 0)
            return
        found = [self._search_text in line for line in self.toPlainText().casefold().split("\n")]
        here = self.textCursor().blockNumber()
        is_on_one = self.textCursor().hasSelection() and found[here]
        self.matches.emit(sum(found[: here + 1]) if is_on_one else 0, sum(found))

    def go_to_first_error(self) -> bool:
        """Go to the first line in sight or above or below that speaks of an error; False if none
        of those that are shown does."""
        block = self.document().firstBlock()
        while block.isValid():
            if is_error(block.text()):
                self._go_to(block)
                return True
            block = block.next()
        return False

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep to the end, if that is what was in sight."""
        follow = self._is_at_end()
        super().resizeEvent(event)
        if follow:
            self._go_to_end()

    def showEvent(self, event: QShowEvent) -> None:
        """Who looks at the log wants its number of matches."""
        super().showEvent(event)
        self.count()

    def _with_device_names(self, line: Line) -> Line:
        return line._replace(text=name_devices(line.text, self._labels)) if line.is_event else line

    def _append(self, lines: list[Line]) -> None:
        self.is_whole = self.is_whole and len(self._lines) + len(lines) <= MAX_LINES
        self._lines.extend(lines)
        shown = [line.text for line in lines[-MAX_LINES:] if self._passes(line)]
        if not shown:
            return
        follow, before = self._is_at_end(), self.blockCount()
        top = self.firstVisibleBlock()
        place, within = top.blockNumber(), self.verticalScrollBar().value() - top.firstLineNumber()
        text = "\n".join(shown)
        self.appendPlainText(text)
        self._count_soon()
        if follow:
            self._go_to_end()
        elif gone := max(0, before + text.count("\n") + 1 - self.blockCount()):
            # What is above has become less: the same number would be a later line.
            top = self.document().findBlockByNumber(max(0, place - gone))
            still_there = within if place >= gone else 0
            self.verticalScrollBar().setValue(top.firstLineNumber() + still_there)

    def _count_soon(self) -> None:
        if self._search_text and not self._recount.isActive():
            self._recount.start()

    def _show_all(self) -> None:
        self.setPlainText("\n".join(line.text for line in self._lines if self._passes(line)))
        self._go_to_end()
        self.count()

    def _go_to(self, block: QTextBlock) -> None:
        """Put the line in the middle, selected: a selection is no matter of colour alone, the
        cursor stands there, too."""
        cursor = QTextCursor(block)
        cursor.movePosition(QTextCursor.MoveOperation.EndOfBlock, QTextCursor.MoveMode.KeepAnchor)
        self.setTextCursor(cursor)
        self.centerCursor()

    def _is_at_end(self) -> bool:
        return self.verticalScrollBar().value() == self.verticalScrollBar().maximum()

    def _go_to_end(self) -> None:
        self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())

    def _passes(self, line: Line) -> bool:
        if self._rank is not None and line.rank != self._rank:
            return False
        return not self._hides or self._search_text in line.text.casefold()
