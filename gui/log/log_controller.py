"""Connects the bar above the log and the events with both of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from PySide6.QtCore import QObject, QTimer, Signal
from PySide6.QtWidgets import QWidget

from engine.runs.store.store_reader import StoredEvent
from gui.log.event_table import EventTable
from gui.log.log_bar import LogBar
from gui.log.log_view import LogView

TYPING_MS = 150
"""Delay of a search after the last key press: a search of a long log would delay the next one."""


class LogController(QObject):
    """Passes the choices in the bar to log and events, and searches in the visible one."""

    message = Signal(str)
    """A sentence: that a text or an error was not found."""

    log_requested = Signal()
    """The tab Log should be brought to the front."""

    def __init__(
        self, bar: LogBar, log: LogView, events: EventTable, parent: QWidget | None = None
    ) -> None:
        super().__init__(parent)
        self._bar, self._log, self._events = bar, log, events
        self._search_timer = QTimer(self, singleShot=True, interval=TYPING_MS)
        self._search_timer.timeout.connect(self._search)
        bar.filter.textEdited.connect(lambda: self._search_timer.start())
        bar.filter.textChanged.connect(self._text_changed)
        bar.only_matches.toggled.connect(log.set_only_matches)
        bar.only_matches.toggled.connect(events.set_only_matches)
        bar.rank_chosen.connect(log.set_rank)
        bar.rank_chosen.connect(events.set_rank)
        log.matches.connect(partial(self._show_matches, log))
        events.matches.connect(partial(self._show_matches, events))
        bar.next_requested.connect(self.find_next)
        bar.previous_requested.connect(self.find_previous)
        bar.first_error_requested.connect(self.go_to_first_error)

    def clear(self) -> None:
        """Remove everything, because another run is shown."""
        self._log.clear_lines()
        self._events.clear()
        self._bar.clear_ranks()

    def add_output(self, rank: int, lines: list[str]) -> None:
        """Show lines that worker `rank` printed."""
        self._bar.offer_rank(rank)
        self._log.append_output(rank, lines)

    def add_events(self, events: list[StoredEvent]) -> None:
        """Show events."""
        self._bar.add_events(events)
        self._log.append_events(events)
        self._events.append(events)

    def set_device_names(self, labels: Mapping[str, str]) -> None:
        """Set the display name of each device, by its id."""
        self._log.set_device_names(labels)
        self._events.set_device_names(labels)

    def find_next(self) -> None:
        """Go to the next line with the search text, in the visible log or table."""
        self._find(backwards=False)

    def find_previous(self) -> None:
        """Go to the previous line with the search text."""
        self._find(backwards=True)

    def go_to_first_error(self) -> None:
        """Go to the first error; if the filter hides it, remove the filter."""
        self._search()
        view = self._visible_view()
        if view.go_to_first_error():
            return
        self._bar.show_everything()
        if view.go_to_first_error():
            return
        if view is self._log and not self._log.has_all_lines:
            text = (
                "There is no error in these lines. Earlier lines are only in the log files of the "
                "run."
            )
        else:
            text = "There is no error here."
        self.message.emit(text)

    def _text_changed(self) -> None:
        if not self._search_timer.isActive():  # typed text has already started the timer
            self._search()

    def _search(self) -> None:
        """Search for the text in the bar."""
        self._search_timer.stop()
        self._log.set_filter(self._bar.filter.text())
        self._events.set_filter(self._bar.filter.text())

    def _visible_view(self) -> LogView | EventTable:
        """Return the table of events if it is visible; else bring the log to the front, and return
        it."""
        if self._events.isVisible():
            return self._events
        self.log_requested.emit()
        return self._log

    def _show_matches(self, view: QWidget, place: int, count: int) -> None:
        if view.isVisible() and not self._search_timer.isActive():
            self._bar.show_matches(place, count)

    def _find(self, *, backwards: bool) -> None:
        self._search()
        view = self._visible_view()
        if not view.find_again(backwards=backwards):
            text, where = self._bar.filter.text(), view.accessibleName()
            self.message.emit(
                f"“{text}” is not there: {where}."
                if text
                else "Enter the text to search for in the filter."
            )
