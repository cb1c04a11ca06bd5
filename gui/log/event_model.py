"""The rows of the tab Events: the events of a run as text, and the filter over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from PySide6.QtCore import QModelIndex, QObject, QSortFilterProxyModel, Qt
from PySide6.QtGui import QColor, QGuiApplication

from engine.messages.events import Event
from engine.runs.store.store_reader import StoredEvent
from engine.system import units
from gui.log.event_text import Level, event_name, event_text
from gui.style.device_labels import name_devices
from gui.style.theme import theme_of
from gui.widgets.plain_text import plain_tip
from gui.widgets.table import LEFT, RIGHT, Index, TableModel

MAX_ROWS = 10_000
"""If a run has more events, the newest are shown; the store has all of them."""

CAPTIONS = ("Time", "What", "Step", "Rank", "Level", "Text")
COLUMNS = len(CAPTIONS)
_STEP_COLUMN, _RANK_COLUMN, _LEVEL_COLUMN = 2, 3, 4
LEVEL = Qt.ItemDataRole.UserRole
_NUMBERS = (_STEP_COLUMN, _RANK_COLUMN)


class _Row(NamedTuple):
    time: float
    cells: tuple[str, ...]
    rank: int
    level: Level
    searched: str
    """All cells, case-folded."""


class EventModel(TableModel[_Row, int]):
    """One row of text per stored event, oldest first."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[_Row] = []
        self.columns = range(COLUMNS)
        self._labels: Mapping[str, str] = {}

    def append(self, events: list[StoredEvent]) -> None:
        """Add `events` at the end; drop the oldest rows if there are too many."""
        events = events[-MAX_ROWS:]
        if not events:
            return
        self._make_room(len(events))
        first = len(self.rows)
        self.beginInsertRows(QModelIndex(), first, first + len(events) - 1)
        self.rows.extend(self._with_device_names(_row(stored)) for stored in events)
        self.endInsertRows()

    def set_device_names(self, labels: Mapping[str, str]) -> None:
        """Set the display name of each device, by its id."""
        if labels == self._labels:
            return
        self._labels = dict(labels)
        rows = [self._with_device_names(row) for row in self.rows]
        if rows != self.rows:
            self.rows = rows
            self.report_changes()

    def clear(self) -> None:
        """Remove all rows."""
        self.beginResetModel()
        self.rows.clear()
        self.endResetModel()

    def title(self, column: int) -> str:
        """Return the title of a column."""
        return CAPTIONS[column]

    def text(self, row: _Row, column: int) -> str:
        """Return the text of a cell."""
        return row.cells[column]

    def tip(self, row: _Row, column: int) -> str:
        """Return the whole text, or the time with its day."""
        return units.date_and_time(row.time) if column == 0 else plain_tip(row.cells[column])

    def alignment(self, column: int) -> Qt.AlignmentFlag:
        """Return where the texts of a column stand."""
        return RIGHT if column in _NUMBERS else LEFT

    def look(self, row: _Row, column: int, role: int) -> object:
        """Return the colour of a level, and the level itself."""
        if role == Qt.ItemDataRole.ForegroundRole and column == _LEVEL_COLUMN:
            theme = theme_of(QGuiApplication.palette())
            colours = {Level.WARN: theme.warn, Level.ERROR: theme.bad}
            return QColor(colours.get(row.level, theme.muted))
        return row.level if role == LEVEL else None

    def has_text(self, row: int, text: str) -> bool:
        """Whether the row contains the case-folded `text`."""
        return text in self.rows[row].searched

    def rank(self, row: int) -> int:
        """Return the rank of the row; -1: the supervisor."""
        return self.rows[row].rank

    def _with_device_names(self, row: _Row) -> _Row:
        text = name_devices(row.cells[-1], self._labels)
        return row if text == row.cells[-1] else _with_cells(row, (*row.cells[:-1], text))

    def _make_room(self, count: int) -> None:
        """Drop the oldest rows, so that with `count` new rows there are at most MAX_ROWS."""
        excess = len(self.rows) + count - MAX_ROWS
        if excess > 0:
            self.beginRemoveRows(QModelIndex(), 0, excess - 1)
            del self.rows[:excess]
            self.endRemoveRows()


class EventFilter(QSortFilterProxyModel):
    """Shows the rows of one rank or of all ranks, and can hide the rows without the search text."""

    def __init__(self, events: EventModel, parent: QObject) -> None:
        super().__init__(parent)
        # Called directly: a search through `data` and its roles takes ten times longer.
        self._events = events
        self.setSourceModel(events)
        self._rank: int | None = None
        self.text = ""
        """The search text, case-folded; empty: no search."""

        self._only_matches = True

    def set_rank(self, rank: int | None) -> None:
        """Show only the rows of `rank` (-1: the supervisor); None: of all ranks."""
        self.beginFilterChange()
        self._rank = rank
        self.endFilterChange()

    def set_text(self, text: str) -> None:
        """Search for `text`, ignoring case."""
        self.beginFilterChange()
        self.text = text.casefold()
        self.endFilterChange()

    def set_only_matches(self, only_matches: bool) -> None:
        """Set whether rows without the search text are hidden."""
        self.beginFilterChange()
        self._only_matches = only_matches
        self.endFilterChange()

    def matching_rows(self) -> Sequence[int]:
        """Return the visible rows that contain the search text."""
        if not self.text:
            return ()
        rows = range(self.rowCount())
        return rows if self._only_matches else [row for row in rows if self._has_text(row)]

    def _has_text(self, row: int) -> bool:
        source = self.mapToSource(self.index(row, 0))
        return self._events.has_text(source.row(), self.text)

    def filterAcceptsRow(self, source_row: int, source_parent: Index) -> bool:
        if self._rank is not None and self._events.rank(source_row) != self._rank:
            return False
        only_matches = self._only_matches and self.text
        return not only_matches or self._events.has_text(source_row, self.text)


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
    return _with_cells(_Row(stored.time, (), described.rank, described.level, ""), cells)


def _with_cells(row: _Row, cells: tuple[str, ...]) -> _Row:
    """Return `row` with these cells."""
    return row._replace(cells=cells, searched="\n".join(cells).casefold())


def _step(event: Event) -> str:
    step: int | None = getattr(event, "step", None)
    return "" if step is None else f"{step:,}"
