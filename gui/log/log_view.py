"""The tab Log: the output of the workers, with the events of the run between their lines."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QRawFont, QResizeEvent, QShowEvent, QTextBlock, QTextCursor
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from engine.runs.store.store_reader import StoredEvent
from gui.log.event_text import Level
from gui.log.log_highlighter import LogHighlighter
from gui.log.log_lines import Line, event_line, is_error, output_line
from gui.log.missing_glyphs import MissingGlyphs
from gui.style.device_labels import name_devices
from gui.style.theme import Theme, monospace_font

MAX_LINES = 10_000
COUNT_MS = 300
"""Delay between new lines and the new number of matches, in milliseconds."""


class LogView(QPlainTextEdit):
    """Shows at most MAX_LINES lines; follows the end unless it is scrolled up."""

    matches = Signal(int, int)
    """Number of the cursor's line among the lines with the search text, from 1 (0: another line),
    and how many such lines there are."""

    newest = Signal(str)
    """The newest line, whatever is searched; empty: there is none."""

    levels = Signal(int, int)
    """How many events are warnings, and how many are errors."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._lines: deque[Line] = deque(maxlen=MAX_LINES)
        self.has_all_lines = True
        """Whether no printed line was skipped or dropped."""

        self._levels: Counter[Level] = Counter()
        self._labels: Mapping[str, str] = {}
        self._search_text = ""
        self._rank: int | None = None
        self._only_matches = True
        self.setAccessibleName("Log")
        self.setReadOnly(True)
        self._missing_glyphs = MissingGlyphs(QRawFont.fromFont(monospace_font()))
        self.setMaximumBlockCount(MAX_LINES)
        self.setFont(monospace_font())
        self.setPlaceholderText("What the workers print appears here.")
        self._highlighter = LogHighlighter(self.document(), theme)
        self._recount = QTimer(self, singleShot=True, interval=COUNT_MS)
        self._recount.timeout.connect(self.count)
        self.cursorPositionChanged.connect(self._count_soon)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self._highlighter.set_theme(theme)

    def append_output(self, rank: int, lines: list[str]) -> None:
        """Add lines that worker `rank` printed, whose time is unknown."""
        self._append([output_line(rank, self._missing_glyphs.drawable(line)) for line in lines])

    def append_events(self, events: list[StoredEvent]) -> None:
        """Add events, oldest first."""
        self._append([self._with_device_names(event_line(stored)) for stored in events])

    def set_device_names(self, labels: Mapping[str, str]) -> None:
        """Set the display name of each device, by its id, for the events."""
        if labels == self._labels:
            return
        self._labels = dict(labels)
        lines = [self._with_device_names(line) for line in self._lines]
        if lines != list(self._lines):
            self._lines = deque(lines, maxlen=MAX_LINES)
            self._show_all()

    def clear_lines(self) -> None:
        """Remove all lines, because another run is shown."""
        self.has_all_lines = True
        self._lines.clear()
        self.clear()
        self._levels.clear()
        self.newest.emit("")
        self.levels.emit(0, 0)
        self.count()

    def note_skipped_lines(self) -> None:
        """Record that some printed lines were skipped."""
        self.has_all_lines = False

    def set_filter(self, text: str) -> None:
        """Search for `text`, ignoring case: hide the lines without it, or mark it."""
        if text.casefold() == self._search_text:
            return
        self._search_text = text.casefold()
        self._highlighter.set_search_text(self._search_text)
        self._show_all()

    def set_only_matches(self, only_matches: bool) -> None:
        """Set whether lines without the search text are hidden."""
        self._only_matches = only_matches
        self._show_all()

    def set_rank(self, rank: int | None) -> None:
        """Show only the lines of `rank` (-1: the supervisor); None: of all ranks."""
        self._rank = rank
        self._show_all()

    def find_again(self, *, backwards: bool = False) -> bool:
        """Go to the next (or previous) line with the search text, in a cycle; return False if there
        is none."""
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
        """Emit `matches` for the visible lines with the search text."""
        self._recount.stop()
        if not self._search_text:
            self.matches.emit(0, 0)
            return
        found = [self._search_text in line for line in self.toPlainText().casefold().split("\n")]
        current = self.textCursor().blockNumber()
        is_on_one = self.textCursor().hasSelection() and found[current]
        self.matches.emit(sum(found[: current + 1]) if is_on_one else 0, sum(found))

    def go_to_first_error(self) -> bool:
        """Go to the first error among the lines; return False if there is none."""
        block = self.document().firstBlock()
        while block.isValid():
            if is_error(block.text()):
                self._go_to(block)
                return True
            block = block.next()
        return False

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Stay at the end if the view was there."""
        follow = self._is_at_end()
        super().resizeEvent(event)
        if follow:
            self._go_to_end()

    def showEvent(self, event: QShowEvent) -> None:
        """Update the number of matches."""
        super().showEvent(event)
        self.count()

    def _with_device_names(self, line: Line) -> Line:
        return line._replace(text=name_devices(line.text, self._labels)) if line.is_event else line

    def _append(self, lines: list[Line]) -> None:
        self.has_all_lines = self.has_all_lines and len(self._lines) + len(lines) <= MAX_LINES
        self._lines.extend(lines)
        if lines:
            self.newest.emit(lines[-1].text)
        if serious := [line.level for line in lines if line.level in (Level.WARN, Level.ERROR)]:
            self._levels.update(serious)
            self.levels.emit(self._levels[Level.WARN], self._levels[Level.ERROR])
        shown = [line.text for line in lines[-MAX_LINES:] if self._is_shown(line)]
        if not shown:
            return
        follow, before = self._is_at_end(), self.blockCount()
        top = self.firstVisibleBlock()
        place, line_offset = (
            top.blockNumber(),
            self.verticalScrollBar().value() - top.firstLineNumber(),
        )
        text = "\n".join(shown)
        self.appendPlainText(text)
        self._count_soon()
        if follow:
            self._go_to_end()
        elif dropped := max(0, before + text.count("\n") + 1 - self.blockCount()):
            # Old lines were dropped: scroll up by their number, so that the view does not move.
            top = self.document().findBlockByNumber(max(0, place - dropped))
            new_offset = line_offset if place >= dropped else 0
            self.verticalScrollBar().setValue(top.firstLineNumber() + new_offset)

    def _count_soon(self) -> None:
        if self._search_text and not self._recount.isActive():
            self._recount.start()

    def _show_all(self) -> None:
        self.setPlainText("\n".join(line.text for line in self._lines if self._is_shown(line)))
        self._go_to_end()
        self.count()

    def _go_to(self, block: QTextBlock) -> None:
        """Scroll the line to the middle and select it: a selection is visible without colours."""
        cursor = QTextCursor(block)
        cursor.movePosition(QTextCursor.MoveOperation.EndOfBlock, QTextCursor.MoveMode.KeepAnchor)
        self.setTextCursor(cursor)
        self.centerCursor()

    def _is_at_end(self) -> bool:
        return self.verticalScrollBar().value() == self.verticalScrollBar().maximum()

    def _go_to_end(self) -> None:
        self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())

    def _is_shown(self, line: Line) -> bool:
        if self._rank is not None and line.rank != self._rank:
            return False
        return not self._only_matches or self._search_text in line.text.casefold()
