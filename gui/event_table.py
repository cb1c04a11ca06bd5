"""The tab Events: what happened in the run, one row each."""

from __future__ import annotations

from typing import Any

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QPersistentModelIndex,
    QSortFilterProxyModel,
    Qt,
)
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from engine.store_reader import StoredEvent
from gui import wording
from gui.event_text import event_name, event_text

_COLUMNS = ("Time", "What", "Rank", "Text")
_Index = QModelIndex | QPersistentModelIndex
_NOWHERE = QModelIndex()

MOST_EVENTS = 10_000
"""Rows; the oldest go, as in the log."""


class EventModel(QAbstractTableModel):
    """Rows of text made from stored events, oldest first."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[tuple[str, str, str, str]] = []

    def append(self, events: list[StoredEvent]) -> None:
        """Add `events` at the end."""
        first = len(self._rows)
        self.beginInsertRows(QModelIndex(), first, first + len(events) - 1)
        for stored in events:
            said = event_text(stored.event)
            rank = str(said.rank) if said.rank >= 0 else ""
            name = event_name(stored.event)
            self._rows.append((wording.clock(stored.time), name, rank, said.text))
        self.endInsertRows()
        surplus = len(self._rows) - MOST_EVENTS
        if surplus > 0:
            self.beginRemoveRows(QModelIndex(), 0, surplus - 1)
            del self._rows[:surplus]
            self.endRemoveRows()

    def clear(self) -> None:
        """Forget every row."""
        self.beginResetModel()
        self._rows.clear()
        self.endResetModel()

    def rowCount(self, parent: _Index = _NOWHERE) -> int:
        """One row per event."""
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: _Index = _NOWHERE) -> int:
        """Time, what, rank, text."""
        return 0 if parent.isValid() else len(_COLUMNS)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """The text of a cell, and again as its tooltip, because it may be cut off."""
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            return self._rows[index.row()][index.column()]
        return None

    def headerData(
        self,
        section: int,
        orientation: Qt.Orientation,
        role: int = Qt.ItemDataRole.DisplayRole,
    ) -> Any:
        """The names of the columns."""
        if role == Qt.ItemDataRole.DisplayRole and orientation is Qt.Orientation.Horizontal:
            return _COLUMNS[section]
        return None


class EventTable(QTableView):
    """Shows the events of the watched run; keeps to the newest unless scrolled away."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._events = EventModel()
        self._shown = QSortFilterProxyModel(self)
        self._shown.setSourceModel(self._events)
        self._shown.setFilterKeyColumn(-1)
        self._shown.setFilterCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self.setModel(self._shown)
        self.setAccessibleName("Events")
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.verticalHeader().setVisible(False)
        self.verticalHeader().setDefaultSectionSize(22)
        header = self.horizontalHeader()
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setStretchLastSection(True)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        for column, width in enumerate((100, 140, 50)):
            header.resizeSection(column, width)

    def append(self, events: list[StoredEvent]) -> None:
        """Add `events`, oldest first."""
        bar = self.verticalScrollBar()
        follow = bar.value() == bar.maximum()
        self._events.append(events)
        if follow:
            self.scrollToBottom()

    def showEvent(self, event: QShowEvent) -> None:
        """Begin with the newest: a hidden table cannot scroll along."""
        super().showEvent(event)
        self.scrollToBottom()

    def clear(self) -> None:
        """Forget every event: another run is shown."""
        self._events.clear()

    def set_filter(self, text: str) -> None:
        """Show only rows that contain `text`, in whatever case."""
        self._shown.setFilterFixedString(text)
