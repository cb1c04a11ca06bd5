"""The tab Events: a table with one row per event of the run."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Signal
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QAbstractItemView, QWidget

from engine.runs.store.store_reader import StoredEvent
from gui.log.event_model import LEVEL, EventFilter, EventModel
from gui.log.event_text import Level
from gui.widgets.table import Table

_WIDTHS = (100, 140, 76, 50, 60)
"""Logical pixels of all columns but the last."""

_ROW_HEIGHT = 22


class EventTable(Table):
    """Shows the events of the watched run; follows the newest unless the user scrolled up."""

    matches = Signal(int, int)
    """Number of the current row among the rows with the search text, from 1 (0: none), and how
    many such rows there are."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("Events", _ROW_HEIGHT, parent, single=False)
        self._events = EventModel()
        self._filtered = EventFilter(self._events, self)
        self.setModel(self._filtered)
        self.selectionModel().currentChanged.connect(self.count)
        header = self.horizontalHeader()
        header.setStretchLastSection(True)
        for column, width in enumerate(_WIDTHS):
            header.resizeSection(column, width)
        self.copy = self.add_copy("Copy rows")

    def append(self, events: list[StoredEvent]) -> None:
        """Add `events`, oldest first."""
        bar = self.verticalScrollBar()
        follow = bar.value() == bar.maximum()
        self._events.append(events)
        if follow:
            self.scrollToBottom()
        self.count()

    def showEvent(self, event: QShowEvent) -> None:
        """Scroll to the newest event, because a hidden table does not scroll."""
        super().showEvent(event)
        self.scrollToBottom()
        self.count()

    def clear(self) -> None:
        """Remove all events, because another run is shown."""
        self._events.clear()
        self.count()

    def set_device_names(self, labels: Mapping[str, str]) -> None:
        """Set the display name of each device, by its id."""
        self._events.set_device_names(labels)

    def set_filter(self, text: str) -> None:
        """Search for `text`, ignoring case."""
        self._filtered.set_text(text)
        self.count()

    def set_only_matches(self, only_matches: bool) -> None:
        """Set whether rows without the search text are hidden."""
        self._filtered.set_only_matches(only_matches)
        self.count()

    def set_rank(self, rank: int | None) -> None:
        """Show only the events of `rank` (-1: the supervisor); None: of all ranks."""
        self._filtered.set_rank(rank)
        self.count()

    def find_again(self, *, backwards: bool = False) -> bool:
        """Select the next (or previous) row with the search text, in a cycle; return False if there
        is none."""
        rows = self._filtered.matching_rows()
        if not rows:
            return False
        current = self.currentIndex().row()
        if backwards:
            row = next((row for row in reversed(rows) if row < current), rows[-1])
        else:
            row = next((row for row in rows if row > current), rows[0])
        self._go_to(row)
        return True

    def go_to_first_error(self) -> bool:
        """Select the first error among the visible events; return False if there is none."""
        for row in range(self._filtered.rowCount()):
            if self._filtered.index(row, 0).data(LEVEL) == Level.ERROR:
                self._go_to(row)
                return True
        return False

    def count(self) -> None:
        """Emit `matches` for the visible rows with the search text."""
        if self.isVisible():
            rows = self._filtered.matching_rows()
            current = self.currentIndex().row()
            self.matches.emit(rows.index(current) + 1 if current in rows else 0, len(rows))

    def _go_to(self, row: int) -> None:
        index = self._filtered.index(row, 0)
        self.setCurrentIndex(index)
        self.scrollTo(index, QAbstractItemView.ScrollHint.PositionAtCenter)
