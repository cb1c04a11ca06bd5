"""Colours in the log: time, level and rank of each line, and what is searched for."""

from __future__ import annotations

from PySide6.QtGui import QColor, QSyntaxHighlighter, QTextCharFormat, QTextDocument

from gui.event_text import Level
from gui.log_lines import PREFIX
from gui.theme import Theme


class LogHighlighter(QSyntaxHighlighter):
    """Dresses the lines as they come into sight."""

    def __init__(self, document: QTextDocument, theme: Theme) -> None:
        super().__init__(document)
        self._theme = theme
        self._wanted = ""

    def set_theme(self, theme: Theme) -> None:
        """Colour the lines for `theme`."""
        self._theme = theme
        self.rehighlight()

    def set_wanted(self, text: str) -> None:
        """Mark every place where `text` (case-folded) stands; empty: none."""
        if text != self._wanted:
            self._wanted = text
            self.rehighlight()

    def highlightBlock(self, text: str) -> None:
        """Called by Qt for one line."""
        if match := PREFIX.match(text):
            colours = {
                Level.INFO.value: self._theme.accent,
                Level.WARN.value: self._theme.warn,
                Level.ERROR.value: self._theme.bad,
            }
            inks = (self._theme.muted, colours.get(match[2], self._theme.muted), self._theme.muted)
            for group, ink in enumerate(inks, 1):
                form = QTextCharFormat()
                form.setForeground(QColor(ink))
                self.setFormat(match.start(group), match.end(group) - match.start(group), form)
        if self._wanted:
            self._mark(text.casefold())

    def _mark(self, text: str) -> None:
        form = QTextCharFormat()
        form.setBackground(QColor(self._theme.accent_bg))
        form.setForeground(QColor(self._theme.on_accent))
        place = text.find(self._wanted)
        while place >= 0:
            self.setFormat(place, len(self._wanted), form)
            place = text.find(self._wanted, place + len(self._wanted))
