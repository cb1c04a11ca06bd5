"""Tables: rows of one kind as a Qt model, and how all of them look, are read and are copied."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt
from PySide6.QtGui import QAction, QFont, QGuiApplication, QKeySequence
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from gui.widgets.plain_text import plain_tip

Row = TypeVar("Row")
Column = TypeVar("Column")
Index = QModelIndex | QPersistentModelIndex

LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
BEST = "★ "
"""Stands before the best value; it is not copied."""

ASCENDING, DESCENDING = "▴", "▾"
"""Marks in the title of a sorted column; they are equally wide."""

_NO_INDEX = QModelIndex()
_ROLE = Qt.ItemDataRole


class TableModel(QAbstractTableModel, Generic[Row, Column]):
    """Texts are made when a cell is drawn; a subclass says what it shows."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.rows: Sequence[Row] = []
        self.columns: Sequence[Column] = []
        self.sorted_by, self.descending = "", False

    def name(self, column: Column) -> str:
        """Return what `sorted_by` calls a column."""
        return str(column)

    def title(self, column: Column) -> str:
        """Return the title of a column."""
        raise NotImplementedError

    def title_look(self, column: Column, role: int) -> object:
        """Return what else a title has; None: nothing."""
        return None

    def text(self, row: Row, column: Column) -> str:
        """Return the text of a cell."""
        raise NotImplementedError

    def tip(self, row: Row, column: Column) -> str:
        """Return the tooltip of a cell: a cell may elide its text."""
        return plain_tip(self.text(row, column))

    def spoken(self, row: Row, column: Column) -> str:
        """Return what a screen reader says for a cell."""
        return ": ".join(filter(None, (self.title(column), self.text(row, column))))

    def alignment(self, column: Column) -> Qt.AlignmentFlag:
        """Return where the texts of a column stand."""
        return LEFT

    def look(self, row: Row, column: Column, role: int) -> object:
        """Return what else a cell has, such as its colour; None: nothing."""
        return None

    def rowCount(self, parent: Index = _NO_INDEX) -> int:
        """The number of rows."""
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = _NO_INDEX) -> int:
        """The number of columns."""
        return 0 if parent.isValid() else len(self.columns)

    def headerData(
        self, section: int, side: Qt.Orientation, role: int = _ROLE.DisplayRole
    ) -> object:
        """Return title, mark and alignment of a column."""
        if side is not Qt.Orientation.Horizontal or section >= len(self.columns):
            return None
        column = self.columns[section]
        is_sorted = self.name(column) == self.sorted_by
        match role:
            case _ROLE.DisplayRole if is_sorted:
                return f"{self.title(column)} {DESCENDING if self.descending else ASCENDING}"
            case _ROLE.DisplayRole | _ROLE.EditRole:
                return self.title(column)
            case _ROLE.TextAlignmentRole:
                return self.alignment(column)
            case _ROLE.FontRole if is_sorted:
                font = QFont()
                font.setBold(True)
                return font
        return self.title_look(column, role)

    def data(self, index: Index, role: int = _ROLE.DisplayRole) -> object:
        """Return what a cell shows and says."""
        if not index.isValid() or index.row() >= len(self.rows):
            return None
        row, column = self.rows[index.row()], self.columns[index.column()]
        match role:
            case _ROLE.DisplayRole:
                return self.text(row, column)
            case _ROLE.EditRole:
                return self.text(row, column).removeprefix(BEST)
            case _ROLE.ToolTipRole:
                return self.tip(row, column)
            case _ROLE.AccessibleTextRole:
                return self.spoken(row, column)
            case _ROLE.TextAlignmentRole:
                return self.alignment(column)
        return self.look(row, column, role)

    def show_sort(self, name: str, *, descending: bool) -> None:
        """Mark the title of a column."""
        self.sorted_by, self.descending = name, descending
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, max(0, len(self.columns) - 1))

    def report_changes(self, first: int = 0, last: int = -1, *roles: Qt.ItemDataRole) -> None:
        """Let the views draw rows again, which are the same ones with other values."""
        if self.rows:
            end = self.index(last % len(self.rows), len(self.columns) - 1)
            self.dataChanged.emit(self.index(first, 0), end, list(roles))


class Table(QTableView):
    """Rows are chosen as a whole and copied with Ctrl+C; Tab leaves the table."""

    def __init__(
        self, name: str, row_height: int, parent: QWidget | None = None, *, single: bool = True
    ) -> None:
        """`name` is for screen readers. `single`: one row at most is chosen, and all are copied."""
        super().__init__(parent)
        modes = QAbstractItemView.SelectionMode
        self.setAccessibleName(name)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(modes.SingleSelection if single else modes.ExtendedSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.setCornerButtonEnabled(False)
        rows = self.verticalHeader()
        rows.hide()
        rows.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        rows.setMinimumSectionSize(row_height)
        rows.setDefaultSectionSize(row_height)
        header = self.horizontalHeader()
        header.setDefaultAlignment(LEFT)
        header.setHighlightSections(False)

    def add_copy(self, text: str) -> QAction:
        """Add the action with this text that copies rows; return it."""
        copy = QAction(text, self)
        copy.setShortcut(QKeySequence.StandardKey.Copy)
        copy.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        copy.triggered.connect(self.copy_rows)
        self.addAction(copy)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        return copy

    def copy_rows(self) -> None:
        """Copy the chosen rows for a spreadsheet, or all."""
        is_single = self.selectionMode() is QAbstractItemView.SelectionMode.SingleSelection
        chosen = sorted(index.row() for index in self.selectionModel().selectedRows())
        all_rows = range(self.model().rowCount())
        QGuiApplication.clipboard().setText(
            self.copied(chosen if chosen and not is_single else all_rows)
        )

    def copied(self, rows: Iterable[int]) -> str:
        """Return these rows as tab-separated values below a line of titles."""
        model, role = self.model(), _ROLE.EditRole
        columns = range(model.columnCount())
        titles = [model.headerData(each, Qt.Orientation.Horizontal, role) for each in columns]
        cells = [[model.index(row, each).data(role) for each in columns] for row in rows]
        return "\n".join("\t".join(str(each) for each in line) for line in (titles, *cells))
