"""The rows of the table as a Qt model; texts are made when a cell is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QFont

from engine.runs.run_info import RunInfo
from engine.runs.table.columns import Column, Kind
from gui.runs_table.arrangement import Arranged, GroupRow, Row, is_curve
from gui.runs_table.cell_texts import exact_text, group_title, header_text, text_of
from gui.widgets.plain_text import plain_tip

Index = QModelIndex | QPersistentModelIndex

_NO_INDEX = QModelIndex()
_FLAGS = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
_FIRST_FLAGS = _FLAGS | Qt.ItemFlag.ItemIsUserCheckable
_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
_NUMBERS = (Kind.NUMBER, Kind.DURATION)
ASCENDING, DESCENDING = "▴", "▾"
"""Marks in the title of a sorted column; they are equally wide."""


class RunsTableModel(QAbstractTableModel):
    """Runs and the lines above groups, in the displayed order."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.arranged = Arranged((), (), 0, {}, (), {})
        self._rows: dict[str, list[int]] = {}
        self.chosen: Mapping[str, int] = {}
        """Colour index of each run of the comparison."""

        self.sorted_by, self.descending = "", False

    @property
    def columns(self) -> Sequence[Column]:
        """The visible columns, in the order of the model."""
        return self.arranged.visible

    def row(self, number: int) -> Row:
        """Return a row."""
        return self.arranged.rows[number]

    def run_at(self, index: Index) -> RunInfo | None:
        """Return the run of a row; None for the line above a group."""
        row = self.row(index.row()) if index.isValid() else None
        return row if isinstance(row, RunInfo) else None

    def row_of(self, run_id: str | None, near: int = 0) -> int:
        """Return the row of a run, or of a group; -1 if it is not shown.

        A run with several tags may stand in several groups: then the row next to `near`.
        """
        rows = self._rows.get(run_id or "", ())
        return min(rows, key=lambda row: abs(row - near), default=-1)

    def has_same_rows(self, arranged: Arranged) -> bool:
        """Whether only values differ: rows and columns are the same."""
        old, new = self.arranged, arranged
        return (
            len(old.rows) == len(new.rows)
            and [each.name for each in old.visible] == [each.name for each in new.visible]
            and all(
                one is two or _key(one) == _key(two)
                for one, two in zip(old.rows, new.rows, strict=True)
            )
        )

    def update(self, arranged: Arranged) -> None:
        """Replace values in place. Needs the same rows and columns."""
        before, self.arranged = self.arranged, arranged
        changed = [
            number
            for number, (old, new) in enumerate(zip(before.rows, arranged.rows, strict=True))
            if old is not new and old != new
        ]
        if changed:
            last = self.columnCount() - 1
            self.dataChanged.emit(self.index(changed[0], 0), self.index(changed[-1], last))

    def replace(self, arranged: Arranged) -> None:
        """Show other rows or columns."""
        self.beginResetModel()
        self.arranged = arranged
        self._rows = {}
        for number, row in enumerate(arranged.rows):
            self._rows.setdefault(_key(row), []).append(number)
        self.endResetModel()

    def show_chosen(self, chosen: Mapping[str, int]) -> None:
        """Mark the runs of the comparison."""
        self.chosen = chosen
        if self.arranged.rows:
            end = self.index(self.rowCount() - 1, self.columnCount() - 1)
            self.dataChanged.emit(self.index(0, 0), end, [Qt.ItemDataRole.CheckStateRole])

    def check_state(self, row: Row) -> Qt.CheckState:
        """Whether a run is chosen, or the runs of a group."""
        if isinstance(row, RunInfo):
            return Qt.CheckState.Checked if row.id in self.chosen else Qt.CheckState.Unchecked
        count = sum(info.id in self.chosen for info in row.runs)
        if not count:
            return Qt.CheckState.Unchecked
        return Qt.CheckState.Checked if count == len(row.runs) else Qt.CheckState.PartiallyChecked

    def rowCount(self, parent: Index = _NO_INDEX) -> int:
        """The number of runs and groups."""
        return 0 if parent.isValid() else len(self.arranged.rows)

    def columnCount(self, parent: Index = _NO_INDEX) -> int:
        """The number of visible columns."""
        return 0 if parent.isValid() else len(self.columns)

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Rows can be chosen by the box in their first column."""
        return _FLAGS if index.column() else _FIRST_FLAGS

    def headerData(
        self, section: int, side: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        """Return title, alignment and help of a column."""
        if side is not Qt.Orientation.Horizontal or section >= len(self.columns):
            return None
        column = self.columns[section]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return header_text(column) + self._arrow(column)
            case Qt.ItemDataRole.TextAlignmentRole:
                return alignment(column)
            case Qt.ItemDataRole.ToolTipRole:
                name = column.name
                if is_curve(column):
                    name = column.metric
                return plain_tip(f"{header_text(column)}: “{name}” in filters")
            case Qt.ItemDataRole.FontRole if column.name == self.sorted_by:
                font = QFont()
                font.setBold(True)
                return font
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Return what a cell shows and says."""
        if not index.isValid() or index.row() >= len(self.arranged.rows):
            return None
        row, column = self.row(index.row()), self.columns[index.column()]
        is_first = index.column() == 0
        match role:
            case Qt.ItemDataRole.DisplayRole:
                is_title = is_first and isinstance(row, GroupRow)
                return group_title(row) if is_title else text_of(column, row)  # type: ignore[arg-type]
            case Qt.ItemDataRole.CheckStateRole if is_first:
                return self.check_state(row)
            case Qt.ItemDataRole.TextAlignmentRole:
                return alignment(column)
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(self._tip(row, column))
            case Qt.ItemDataRole.AccessibleTextRole:
                return self._spoken(row, column, is_first=is_first)
        return None

    def _arrow(self, column: Column) -> str:
        if column.name != self.sorted_by:
            return ""
        return f" {DESCENDING if self.descending else ASCENDING}"

    def _tip(self, row: Row, column: Column) -> str:
        if isinstance(row, GroupRow):
            return group_title(row)
        text = exact_text(column, row)
        return f"{row.title}\n{text}" if column.name == "name" else text

    def _spoken(self, row: Row, column: Column, *, is_first: bool) -> str:
        if isinstance(row, GroupRow) and is_first:
            state = "folded" if row.is_folded else ""
            return ", ".join(filter(None, (group_title(row), state)))
        text = f"{header_text(column)}: {text_of(column, row)}"
        if is_first and isinstance(row, RunInfo) and row.id in self.chosen:
            return f"{text}, chosen"
        return text


def alignment(column: Column) -> Qt.AlignmentFlag:
    """Return where the texts of a column stand: numbers at the right, so that digits compare."""
    is_number = column.kind in _NUMBERS and not column.metric and column.name != "id"
    return _RIGHT if is_number else _LEFT


def _key(row: Row) -> str:
    return row.id
