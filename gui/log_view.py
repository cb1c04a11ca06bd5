"""The tab Log: what the workers print, and the run's events between their lines."""

from __future__ import annotations

import re
from collections import deque

from PySide6.QtGui import QColor, QResizeEvent, QSyntaxHighlighter, QTextCharFormat, QTextDocument
from PySide6.QtWidgets import QPlainTextEdit, QWidget

from engine.store_reader import StoredEvent
from gui import wording
from gui.event_text import Level, event_text
from gui.theme import Theme, monospace_font

MOST_LINES = 10_000
_NO_TIME = " " * len("14:02:11.093")
_LEVEL_WIDTH = max(len(level) for level in Level)
_PREFIX = re.compile(rf"([\d:.]{{12}}| {{12}}) ({'|'.join(Level)}|OUT) *( rank \d+| {{7}})")


class LogView(QPlainTextEdit):
    """At most MOST_LINES lines; keeps to the end unless scrolled away."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._lines: deque[str] = deque(maxlen=MOST_LINES)
        self._filter = ""
        self.setAccessibleName("Log")
        self.setReadOnly(True)
        self.setMaximumBlockCount(MOST_LINES)
        self.setFont(monospace_font())
        self.setPlaceholderText("What the workers print appears here.")
        self._highlighter = _Highlighter(self.document(), theme)

    def set_theme(self, theme: Theme) -> None:
        """Colour the lines for `theme`."""
        self._highlighter.set_theme(theme)

    def append_output(self, rank: int, lines: list[str]) -> None:
        """Add lines that worker `rank` printed; when it did is not known."""
        self._append([_line(_NO_TIME, "OUT", rank, line) for line in lines])

    def append_events(self, events: list[StoredEvent]) -> None:
        """Add events, oldest first."""
        lines = []
        for stored in events:
            said = event_text(stored.event)
            lines.append(_line(wording.clock(stored.time), said.level, said.rank, said.text))
        self._append(lines)

    def forget(self) -> None:
        """Drop every line: another run is shown."""
        self._lines.clear()
        self.clear()

    def set_filter(self, text: str) -> None:
        """Show only lines that contain `text`, in whatever case."""
        self._filter = text.casefold()
        self.setPlainText("\n".join(line for line in self._lines if self._passes(line)))
        self._go_to_end()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep to the end, if that is what was in sight."""
        follow = self._is_at_end()
        super().resizeEvent(event)
        if follow:
            self._go_to_end()

    def _append(self, lines: list[str]) -> None:
        self._lines.extend(lines)
        shown = [line for line in lines[-MOST_LINES:] if self._passes(line)]
        if not shown:
            return
        follow = self._is_at_end()
        self.appendPlainText("\n".join(shown))
        if follow:
            self._go_to_end()

    def _is_at_end(self) -> bool:
        return self.verticalScrollBar().value() == self.verticalScrollBar().maximum()

    def _go_to_end(self) -> None:
        self.verticalScrollBar().setValue(self.verticalScrollBar().maximum())

    def _passes(self, line: str) -> bool:
        return self._filter in line.casefold()


def _line(time: str, level: str, rank: int, text: str) -> str:
    who = f"rank {rank}" if rank >= 0 else ""
    return f"{time} {level:{_LEVEL_WIDTH}} {who:6}  {text}"


class _Highlighter(QSyntaxHighlighter):
    """Colours the time, the level and the rank of each line."""

    def __init__(self, document: QTextDocument, theme: Theme) -> None:
        super().__init__(document)
        self._theme = theme

    def set_theme(self, theme: Theme) -> None:
        self._theme = theme
        self.rehighlight()

    def highlightBlock(self, text: str) -> None:
        match = _PREFIX.match(text)
        if match is None:
            return
        colours = {
            Level.INFO.value: self._theme.accent,
            Level.WARN.value: self._theme.warn,
            Level.ERROR.value: self._theme.bad,
        }
        for group, colour in (
            (1, self._theme.muted),
            (2, colours.get(match[2], self._theme.muted)),
            (3, self._theme.muted),
        ):
            form = QTextCharFormat()
            form.setForeground(QColor(colour))
            self.setFormat(match.start(group), match.end(group) - match.start(group), form)
