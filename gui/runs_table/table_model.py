"""The rows of the table as a Qt model; texts are made when a cell is drawn."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QObject, Qt

from engine.runs.run_info import RunInfo
from engine.runs.table.columns import Column, Kind
from gui.runs_table.arrangement import Arranged, GroupRow, Row, is_curve
from gui.runs_table.cell_texts import exact_text, group_title, header_text, text_of
from gui.widgets.plain_text import plain_tip
from gui.widgets.table import LEFT, RIGHT, Index, TableModel

_FLAGS = Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable
_FIRST_FLAGS = _FLAGS | Qt.ItemFlag.ItemIsUserCheckable
_NUMBERS = (Kind.NUMBER, Kind.DURATION)


class RunsTableModel(TableModel[Row, Column]):
    """Runs and the lines above groups, in the displayed order."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.arranged = Arranged((), (), 0, {}, (), {})
        self._places: dict[str, list[int]] = {}
        self.chosen: Mapping[str, int] = {}
        """Colour index of each run of the comparison."""

    def run_at(self, index: Index) -> RunInfo | None:
        """Return the run of a row; None for the line above a group."""
        row = self.rows[index.row()] if index.isValid() else None
        return row if isinstance(row, RunInfo) else None

    def row_of(self, run_id: str | None, near: int = 0) -> int:
        """Return the row of a run, or of a group; -1 if it is not shown.

        A run with several tags may stand in several groups: then the row next to `near`.
        """
        rows = self._places.get(run_id or "", ())
        return min(rows, key=lambda row: abs(row - near), default=-1)

    def has_same_rows(self, arranged: Arranged) -> bool:
        """Whether only values differ: rows and columns are the same."""
        old, new = self.arranged, arranged
        return (
            len(old.rows) == len(new.rows)
            and [each.name for each in old.visible] == [each.name for each in new.visible]
            and all(
                one is two or one.id == two.id for one, two in zip(old.rows, new.rows, strict=True)
            )
        )

    def update(self, arranged: Arranged) -> None:
        """Replace values in place. Needs the same rows and columns."""
        before = self.rows
        self._set(arranged)
        changed = [
            number
            for number, (old, new) in enumerate(zip(before, arranged.rows, strict=True))
            if old is not new and old != new
        ]
        if changed:
            self.report_changes(changed[0], changed[-1])

    def replace(self, arranged: Arranged) -> None:
        """Show other rows or columns."""
        self.beginResetModel()
        self._set(arranged)
        self._places = {}
        for number, row in enumerate(arranged.rows):
            self._places.setdefault(row.id, []).append(number)
        self.endResetModel()

    def show_chosen(self, chosen: Mapping[str, int]) -> None:
        """Mark the runs of the comparison."""
        self.chosen = chosen
        self.report_changes(0, -1, Qt.ItemDataRole.CheckStateRole)

    def check_state(self, row: Row) -> Qt.CheckState:
        """Whether a run is chosen, or the runs of a group."""
        if isinstance(row, RunInfo):
            return Qt.CheckState.Checked if row.id in self.chosen else Qt.CheckState.Unchecked
        count = sum(info.id in self.chosen for info in row.runs)
        if not count:
            return Qt.CheckState.Unchecked
        return Qt.CheckState.Checked if count == len(row.runs) else Qt.CheckState.PartiallyChecked

    def flags(self, index: Index) -> Qt.ItemFlag:
        """Rows can be chosen by the box in their first column."""
        return _FLAGS if index.column() else _FIRST_FLAGS

    def name(self, column: Column) -> str:
        """Return the name of a column in filters."""
        return column.name

    def title(self, column: Column) -> str:
        """Return the title of a column."""
        return header_text(column)

    def title_look(self, column: Column, role: int) -> object:
        """Return the help of a column."""
        if role != Qt.ItemDataRole.ToolTipRole:
            return None
        name = column.metric if is_curve(column) else column.name
        return plain_tip(f"{header_text(column)}: “{name}” in filters")

    def text(self, row: Row, column: Column) -> str:
        """Return the text of a cell."""
        is_title = isinstance(row, GroupRow) and column is self.columns[0]
        return group_title(row) if is_title else text_of(column, row)  # type: ignore[arg-type]

    def tip(self, row: Row, column: Column) -> str:
        """Return the exact value, or what a group has in common."""
        if isinstance(row, GroupRow):
            return plain_tip(group_title(row))
        text = exact_text(column, row)
        return plain_tip(f"{row.title}\n{text}" if column.name == "name" else text)

    def spoken(self, row: Row, column: Column) -> str:
        """Return what a screen reader says for a cell."""
        is_first = column is self.columns[0]
        if isinstance(row, GroupRow) and is_first:
            state = "folded" if row.is_folded else ""
            return ", ".join(filter(None, (group_title(row), state)))
        text = super().spoken(row, column)
        if is_first and isinstance(row, RunInfo) and row.id in self.chosen:
            return f"{text}, chosen"
        return text

    def alignment(self, column: Column) -> Qt.AlignmentFlag:
        """Return where the texts of a column stand."""
        return alignment(column)

    def look(self, row: Row, column: Column, role: int) -> object:
        """Return whether the box in the first column is ticked."""
        is_box = role == Qt.ItemDataRole.CheckStateRole and column is self.columns[0]
        return self.check_state(row) if is_box else None

    def _set(self, arranged: Arranged) -> None:
        self.arranged, self.rows, self.columns = arranged, arranged.rows, arranged.visible


def alignment(column: Column) -> Qt.AlignmentFlag:
    """Return where the texts of a column stand: numbers at the right, so that digits compare."""
    is_number = column.kind in _NUMBERS and not column.metric and column.name != "id"
    return RIGHT if is_number else LEFT
