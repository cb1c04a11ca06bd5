"""Colours time, level and rank of each line of the log, and marks the search text."""

from __future__ import annotations

from PySide6.QtGui import QColor, QSyntaxHighlighter, QTextCharFormat, QTextDocument

from gui.log.event_text import Level
from gui.log.log_lines import PREFIX
from gui.style.theme import Theme


class LogHighlighter(QSyntaxHighlighter):
    """Formats each line once, when it is added to the document."""

    def __init__(self, document: QTextDocument, theme: Theme) -> None:
        super().__init__(document)
        self._search_text = ""
        self._set_colours(theme)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        self._set_colours(theme)
        self.rehighlight()

    def set_search_text(self, text: str) -> None:
        """Mark the case-folded `text` in lines that are added later; empty: mark nothing."""
        self._search_text = text

    def highlightBlock(self, text: str) -> None:
        if match := PREFIX.match(text):
            forms = (self._quiet, self._levels.get(match[2], self._quiet), self._quiet)
            for group, form in enumerate(forms, 1):
                self.setFormat(match.start(group), match.end(group) - match.start(group), form)
        if self._search_text:
            self._mark(text.casefold())

    def _set_colours(self, theme: Theme) -> None:
        self._quiet = _format(theme.muted)
        self._levels = {
            Level.INFO.value: _format(theme.accent),
            Level.WARN.value: _format(theme.warn),
            Level.ERROR.value: _format(theme.bad),
        }
        self._found = _format(theme.on_accent)
        self._found.setBackground(QColor(theme.accent_bg))

    def _mark(self, text: str) -> None:
        place = text.find(self._search_text)
        while place >= 0:
            self.setFormat(place, len(self._search_text), self._found)
            place = text.find(self._search_text, place + len(self._search_text))


def _format(colour: str) -> QTextCharFormat:
    form = QTextCharFormat()
    form.setForeground(QColor(colour))
    return form
