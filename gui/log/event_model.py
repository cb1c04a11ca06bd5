"""The rows of the tab Events: what happened in a run as text, and those of them that are wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QSortFilterProxyModel,
    Qt,
)
from PySide6.QtGui import QColor, QGuiApplication

from engine.messages.events import Event
from engine.runs.store_reader import StoredEvent
from engine.system import units
from gui.log.event_text import Level, event_name, event_text
from gui.style.device_labels import name_devices
from gui.style.theme import theme_of
from gui.style.translation import translate

MAX_ROWS = 10_000
"""Of a run that has more, the newest are shown: the store and the log files have them all."""

COLUMNS = 6
_STEP_COLUMN, _RANK_COLUMN, _LEVEL_COLUMN = 2, 3, 4
LEVEL = Qt.ItemDataRole.UserRole
_NUMBERS = (_STEP_COLUMN, _RANK_COLUMN)
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_Index = QModelIndex | QPersistentModelIndex
_NOWHERE = QModelIndex()


class _Row(NamedTuple):
    time: float
    cells: tuple[str, ...]
    rank: int
    level: Level
    searched: str
    """All cells, case-folded."""


class EventModel(QAbstractTableModel):
    """Rows of text made from stored events, oldest first."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[_Row] = []
        self._labels: Mapping[str, str] = {}

    def append(self, events: list[StoredEvent]) -> None:
        """Add `events` at the end; the oldest rows make way."""
        events = events[-MAX_ROWS:]
        if not events:
            return
        self._make_room(len(events))
        first = len(self._rows)
        self.beginInsertRows(QModelIndex(), first, first + len(events) - 1)
        self._rows.extend(self._with_device_names(_row(stored)) for stored in events)
        self.endInsertRows()

    def set_device_names(self, labels: Mapping[str, str]) -> None:
        """What to call each device, by its id."""
        if labels == self._labels:
            return
        self._labels = dict(labels)
        rows = [self._with_device_names(row) for row in self._rows]
        if rows != self._rows:
            self._rows = rows
            self.dataChanged.emit(self.index(0, 0), self.index(len(rows) - 1, COLUMNS - 1))

    def clear(self) -> None:
        """Forget every row."""
        self.beginResetModel()
        self._rows.clear()
        self.endResetModel()

    def rowCount(self, parent: _Index = _NOWHERE) -> int:
        """One row per event."""
        return 0 if parent.isValid() else len(self._rows)

    def columnCount(self, parent: _Index = _NOWHERE) -> int:
        """Those of `captions`."""
        return 0 if parent.isValid() else COLUMNS

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """The text of a cell, and again as its tooltip, because it may be cut off."""
        row, column = self._rows[index.row()], index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return row.cells[column]
        if role == Qt.ItemDataRole.ToolTipRole:
            return units.date_and_time(row.time) if column == 0 else row.cells[column]
        if role == Qt.ItemDataRole.TextAlignmentRole and column in _NUMBERS:
            return _RIGHT
        if role == Qt.ItemDataRole.ForegroundRole and column == _LEVEL_COLUMN:
            theme = theme_of(QGuiApplication.palette())
            colours = {Level.WARN: theme.warn, Level.ERROR: theme.bad}
            return QColor(colours.get(row.level, theme.muted))
        return row.level if role == LEVEL else None

    def headerData(
        self,
        section: int,
        orientation: Qt.Orientation,
        role: int = Qt.ItemDataRole.DisplayRole,
    ) -> Any:
        """The names of the columns."""
        if orientation is not Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.TextAlignmentRole and section in _NUMBERS:
            return _RIGHT
        if role == Qt.ItemDataRole.DisplayRole:
            return captions()[section]
        return None

    def has_text(self, row: int, text: str) -> bool:
        """Whether the case-folded `text` stands in that row."""
        return text in self._rows[row].searched

    def rank(self, row: int) -> int:
        """Whose that row is; -1: the supervisor's."""
        return self._rows[row].rank

    def _with_device_names(self, row: _Row) -> _Row:
        text = name_devices(row.cells[-1], self._labels)
        return row if text == row.cells[-1] else _searchable(row, (*row.cells[:-1], text))

    def _make_room(self, count: int) -> None:
        """Forget the oldest rows, so that `count` more are MOST_ROWS at the most."""
        excess = len(self._rows) + count - MAX_ROWS
        if excess > 0:
            self.beginRemoveRows(QModelIndex(), 0, excess - 1)
            del self._rows[:excess]
            self.endRemoveRows()


class EventFilter(QSortFilterProxyModel):
    """The rows of the rank looked for; those without the text looked for may be hidden, too."""

    def __init__(self, events: EventModel, parent: QObject) -> None:
        super().__init__(parent)
        self._events = (
            events  # asked for itself: by way of Qt a letter would take ten times as long
        )
        self.setSourceModel(events)
        self._rank: int | None = None
        self.text = ""
        """What is looked for, case-folded; empty: nothing."""

        self._hides = True

    def set_rank(self, rank: int | None) -> None:
        """Let only this rank pass (-1: the supervisor); None: everybody."""
        self.beginFilterChange()
        self._rank = rank
        self.endFilterChange()

    def set_text(self, text: str) -> None:
        """Look for `text`, in whatever case."""
        self.beginFilterChange()
        self.text = text.casefold()
        self.endFilterChange()

    def set_hiding(self, hides: bool) -> None:
        """Whether rows without the text are hidden."""
        self.beginFilterChange()
        self._hides = hides
        self.endFilterChange()

    def with_text(self) -> Sequence[int]:
        """In which of the rows that pass the text looked for stands."""
        if not self.text:
            return ()
        rows = range(self.rowCount())
        return rows if self._hides else [row for row in rows if self._has_text(row)]

    def _has_text(self, row: int) -> bool:
        source = self.mapToSource(self.index(row, 0))
        return self._events.has_text(source.row(), self.text)

    def filterAcceptsRow(self, source_row: int, source_parent: _Index) -> bool:
        """Called by Qt for each row."""
        if self._rank is not None and self._events.rank(source_row) != self._rank:
            return False
        hides = self._hides and self.text
        return not hides or self._events.has_text(source_row, self.text)


def captions() -> tuple[str, ...]:
    """The names of the columns."""
    return (
        translate("Events", "Time"),
        translate("Events", "What"),
        translate("Events", "Step"),
        translate("Events", "Rank"),
        translate("Events", "Level"),
        translate("Events", "Text"),
    )


def _row(stored: StoredEvent) -> _Row:
    described = event_text(stored.event)
    rank = str(described.rank) if described.rank >= 0 else ""
    cells = (
        units.time_of_day(stored.time, milliseconds=True),
        event_name(stored.event),
        _step(stored.event),
        rank,
        described.level.value,
        described.text,
    )
    return _searchable(_Row(stored.time, (), described.rank, described.level, ""), cells)


def _searchable(row: _Row, cells: tuple[str, ...]) -> _Row:
    """`row` with these cells."""
    return row._replace(cells=cells, searched="\n".join(cells).casefold())


def _step(event: Event) -> str:
    """The step that the event speaks of, or empty."""
    step: int | None = getattr(event, "step", None)
    return "" if step is None else f"{step:,}"
