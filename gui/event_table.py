"""The tab Events: what happened in the run, one row each."""

from __future__ import annotations

from typing import Any, NamedTuple

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QPersistentModelIndex,
    QSortFilterProxyModel,
    Qt,
)
from PySide6.QtGui import QColor, QGuiApplication, QShowEvent
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from engine.store_reader import StoredEvent
from gui import wording
from gui.event_text import Level, event_name, event_text
from gui.theme import theme_of

MOST_ROWS = 10_000
"""Of a run that has more, the newest are shown: the store and the log files have them all."""

_COLUMNS = ("Time", "What", "Rank", "Level", "Text")
_RANK = Qt.ItemDataRole.UserRole
_LEVEL = Qt.ItemDataRole.UserRole + 1
_Index = QModelIndex | QPersistentModelIndex
_NOWHERE = QModelIndex()

MOST_EVENTS = 10_000
"""Rows; the oldest go, as in the log."""


class _Row(NamedTuple):
    cells: tuple[str, ...]
    rank: int
    level: Level


class EventModel(QAbstractTableModel):
    """Rows of text made from stored events, oldest first."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[_Row] = []

    def append(self, events: list[StoredEvent]) -> None:
        """Add `events` at the end."""
        events = events[-MOST_ROWS:]
        if not events:
            return
        self._make_room(len(events))
        first = len(self._rows)
        self.beginInsertRows(QModelIndex(), first, first + len(events) - 1)
        for stored in events:
            said = event_text(stored.event)
            rank = str(said.rank) if said.rank >= 0 else ""
            name = event_name(stored.event)
            cells = (wording.clock(stored.time), name, rank, said.level.value, said.text)
            self._rows.append(_Row(cells, said.rank, said.level))
        self.endInsertRows()
        surplus = len(self._rows) - MOST_EVENTS
        if surplus > 0:
            self.beginRemoveRows(QModelIndex(), 0, surplus - 1)
            del self._rows[:surplus]
            self.endRemoveRows()

    def _make_room(self, count: int) -> None:
        """Forget the oldest rows, so that `count` more are MOST_ROWS at the most."""
        excess = len(self._rows) + count - MOST_ROWS
        if excess > 0:
            self.beginRemoveRows(QModelIndex(), 0, excess - 1)
            del self._rows[:excess]
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
        """Time, what, rank, level, text."""
        return 0 if parent.isValid() else len(_COLUMNS)

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """The text of a cell, and again as its tooltip, because it may be cut off."""
        row = self._rows[index.row()]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            return row.cells[index.column()]
        if role == Qt.ItemDataRole.ForegroundRole and index.column() == _COLUMNS.index("Level"):
            theme = theme_of(QGuiApplication.palette())
            colours = {Level.WARN: theme.warn, Level.ERROR: theme.bad}
            return QColor(colours.get(row.level, theme.muted))
        if role == _RANK:
            return row.rank
        return row.level if role == _LEVEL else None

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


class _Chosen(QSortFilterProxyModel):
    """The rows that have the text looked for and are of the rank looked for."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._rank: int | None = None

    def set_rank(self, rank: int | None) -> None:
        self.beginFilterChange()
        self._rank = rank
        self.endFilterChange()

    def filterAcceptsRow(self, source_row: int, source_parent: _Index) -> bool:
        if self._rank is not None:
            index = self.sourceModel().index(source_row, 0)
            if index.data(_RANK) != self._rank:
                return False
        return super().filterAcceptsRow(source_row, source_parent)


class EventTable(QTableView):
    """Shows the events of the watched run; keeps to the newest unless scrolled away."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._events = EventModel()
        self._shown = _Chosen(self)
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
        for column, width in enumerate((100, 140, 50, 60)):
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

    def set_rank(self, rank: int | None) -> None:
        """Show only the events of this rank (-1: of the supervisor); None: of everybody."""
        self._shown.set_rank(rank)

    def go_to_first_error(self) -> bool:
        """Select the first event that says that something broke; False if none that is shown
        does."""
        for row in range(self._shown.rowCount()):
            index = self._shown.index(row, 0)
            if index.data(_LEVEL) == Level.ERROR:
                self.setCurrentIndex(index)
                self.scrollTo(index, QAbstractItemView.ScrollHint.PositionAtCenter)
                return True
        return False
