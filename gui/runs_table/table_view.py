"""The table of runs: keyboard, mouse, and what stays in place when the rows change."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QModelIndex, QRect, QSize, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QFontMetrics, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QWidget

from engine.runs.run_info import RunInfo
from engine.runs.table.columns import Column, Kind
from gui.runs_table.arrangement import Arranged, GroupRow, is_curve
from gui.runs_table.cell_delegate import BOX_LEFT, ROW_HEIGHT, CellDelegate, SmallCurve
from gui.runs_table.cell_texts import header_text
from gui.runs_table.table_model import RunsTableModel
from gui.style.theme import Theme
from gui.widgets.cell_painting import BOX
from gui.widgets.table import ASCENDING, Table

_METRIC_WIDTH, _CURVE_WIDTH, _TEXT_WIDTH, _NUMBER_WIDTH, _DURATION_WIDTH = 142, 112, 118, 92, 108
_WIDTHS = {
    "name": 172,
    "batch_size": 84,
    "state": 98,
    "strategy": 112,
    "devices": 118,
    "tags": 70,
    "learning_rate": 98,
    "id": 64,
}
_LEAST_WIDTH = 40
_LEAST_ROWS = 2
"""So many rows are in sight, however low the window is."""


class RunsTableView(Table):
    """The current row is where the keyboard is; the boxes choose runs for the comparison."""

    opened = Signal(str)
    """Id of a run that was double-clicked, or entered with Return."""

    toggled = Signal(list)
    """Ids of runs that are to be chosen, or no longer if all of them are."""

    added = Signal(list)
    """Ids of runs that are to be chosen too."""

    folded = Signal(object)
    """The value of a group that is to be folded or unfolded."""

    sort_wanted = Signal(str)
    """Name of the column whose title was clicked."""

    layout_changed = Signal()
    """The user has moved or resized a column."""

    menu_wanted = Signal(object)
    """QPoint on the screen: the menu of actions."""

    header_menu_wanted = Signal(object, str)
    """QPoint on the screen, and the name of the column whose title was clicked."""

    def __init__(
        self,
        curve: Callable[[RunInfo, str], SmallCurve | None],
        theme: Theme,
        parent: QWidget | None = None,
    ) -> None:
        """`curve` returns the small curve of a run's metric; None: it is not known yet."""
        super().__init__("All runs", ROW_HEIGHT, parent)
        self.runs = RunsTableModel(self)
        self.widths: dict[str, int] = {}
        """Of the columns that the user has resized, by name."""

        self._anchor: str | None = None
        self._is_filling = False
        self.setModel(self.runs)
        self._delegate = CellDelegate(self.runs, curve, theme)
        self.setItemDelegate(self._delegate)
        self.setAccessibleDescription("Space chooses a run for the comparison, Return opens it")
        self.setMouseTracking(True)
        header = self.horizontalHeader()
        header.setSectionsMovable(True)
        header.setSectionsClickable(True)
        header.setStretchLastSection(True)
        header.setMinimumSectionSize(_LEAST_WIDTH)
        header.setTextElideMode(Qt.TextElideMode.ElideRight)  # not the first letters at the right
        header.sectionClicked.connect(self._header_clicked)
        header.sectionMoved.connect(self._section_moved)
        header.sectionResized.connect(self._section_resized)
        header.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        header.customContextMenuRequested.connect(self._header_menu)

    def minimumSizeHint(self) -> QSize:
        """Titles, some rows and a horizontal scroll bar."""
        around = (self.horizontalHeader(), self.horizontalScrollBar())
        height = sum(each.sizeHint().height() for each in around) + 2 * self.frameWidth()
        height += _LEAST_ROWS * ROW_HEIGHT
        return QSize(super().minimumSizeHint().width(), height)

    def set_theme(self, theme: Theme) -> None:
        """Paint in the colours of `theme`."""
        self._delegate.theme = theme
        self.viewport().update()

    def show_rows(self, arranged: Arranged) -> None:
        """Show other rows, columns or values; the current row and the place stay."""
        if self.runs.has_same_rows(arranged):
            self.runs.update(arranged)
            self.viewport().update()  # best values and bars may have moved
            return
        bar = self.verticalScrollBar()
        current, column = self._current_id(), max(0, self.currentIndex().column())
        near = self.currentIndex().row()
        is_current = self._is_in_sight(self.currentIndex())
        kept = current if is_current else self._top_id()
        place = near if is_current else max(0, self.rowAt(0))
        before = self.rowViewportPosition(self.runs.row_of(kept, place)) if kept else 0
        names = [each.name for each in self.runs.columns]
        at_top = not bar.value()
        self._is_filling = True
        self.runs.replace(arranged)
        if names != [each.name for each in arranged.visible]:
            self._arrange_header()
        self._is_filling = False
        if (row := self.runs.row_of(current, near)) >= 0:
            self.setCurrentIndex(self.runs.index(row, min(column, self.runs.columnCount() - 1)))
        if at_top and kept != current:
            bar.setValue(0)
        elif (row := self.runs.row_of(kept, place)) >= 0:
            bar.setValue(bar.value() + self.rowViewportPosition(row) - before)

    def show_chosen(self, chosen: dict[str, int]) -> None:
        """Fill the boxes of these runs with their colours."""
        self.runs.show_chosen(chosen)

    def show_sort(self, name: str, *, descending: bool) -> None:
        """Show an arrow in the title of a column."""
        self.runs.show_sort(name, descending=descending)

    def current_run(self) -> RunInfo | None:
        """Return the run of the current row."""
        return self.runs.run_at(self.currentIndex())

    def visible_runs(self) -> list[RunInfo]:
        """Return the runs in sight."""
        first = max(0, self.rowAt(0))
        last = self.rowAt(self.viewport().height() - 1)
        last = self.runs.rowCount() - 1 if last < 0 else last
        rows = (self.runs.rows[number] for number in range(first, last + 1))
        return [row for row in rows if isinstance(row, RunInfo)]

    def ordered_columns(self) -> list[str]:
        """Return the names of the columns from left to right."""
        header = self.horizontalHeader()
        count = self.runs.columnCount()
        return [self.runs.columns[header.logicalIndex(place)].name for place in range(count)]

    def move_column(self, name: str, by: int) -> None:
        """Move a column to the left (-1) or to the right (1)."""
        header = self.horizontalHeader()
        names = self.ordered_columns()
        place = names.index(name)
        if 0 <= place + by < len(names):
            header.moveSection(place, place + by)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Choose with Space and Shift, open with Return, fold with Left and Right."""
        key, shift = event.key(), event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        index = self.currentIndex()
        row = self.runs.rows[index.row()] if index.isValid() else None
        if key in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and row is not None:
            self._open(index)
        elif key == Qt.Key.Key_Space and row is not None:
            self._anchor = row.id
            self.toggled.emit(_ids(row))
        elif key in (Qt.Key.Key_Left, Qt.Key.Key_Right) and isinstance(row, GroupRow):
            if row.is_folded is (key == Qt.Key.Key_Right):
                self.folded.emit(row.value)
        elif key in (Qt.Key.Key_Up, Qt.Key.Key_Down) and shift and row is not None:
            self._extend(index, 1 if key == Qt.Key.Key_Down else -1)
        elif key == Qt.Key.Key_A and event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.added.emit([info.id for info in self.runs.arranged.shown])
        else:
            super().keyPressEvent(event)
            return
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Choose by the box; with Ctrl one run anywhere in its row, with Shift a range."""
        index = self.indexAt(event.position().toPoint())
        if event.button() is not Qt.MouseButton.LeftButton or not index.isValid():
            super().mousePressEvent(event)
            return
        row = self.runs.rows[index.row()]
        held = event.modifiers()
        previous = self._anchor
        self.setCurrentIndex(index)
        if held & Qt.KeyboardModifier.ShiftModifier:
            self._choose_range(previous, index.row())
            return
        self._anchor = row.id
        is_box = self._box(index).contains(event.position().toPoint())
        if isinstance(row, GroupRow):
            if held & Qt.KeyboardModifier.ControlModifier:
                self.toggled.emit(_ids(row))
            else:
                self.folded.emit(row.value)
        elif is_box or held & Qt.KeyboardModifier.ControlModifier:
            self.toggled.emit([row.id])

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Open a run."""
        position = event.position().toPoint()
        index = self.indexAt(position)
        if not index.isValid() or event.button() is not Qt.MouseButton.LeftButton:
            return
        is_group = isinstance(self.runs.rows[index.row()], GroupRow)
        if is_group or self._box(index).contains(position):
            self.mousePressEvent(event)
        else:
            self._open(index)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Highlight the row under the mouse; do not select by dragging."""
        if not event.buttons():
            super().mouseMoveEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Offer the actions."""
        position = event.globalPos()
        if event.reason() is QContextMenuEvent.Reason.Keyboard:
            rect = self.visualRect(self.currentIndex())
            position = self.viewport().mapToGlobal(rect.bottomLeft())
        else:
            index = self.indexAt(self.viewport().mapFromGlobal(position))
            if index.isValid():
                self.setCurrentIndex(index)
        self.menu_wanted.emit(position)

    def _box(self, index: QModelIndex) -> QRect:
        """Return the place of a row's box, with a margin for the mouse."""
        place = self.visualRect(self.runs.index(index.row(), 0))
        return QRect(place.left(), place.top(), BOX_LEFT + BOX + 8, place.height())

    def _open(self, index: QModelIndex) -> None:
        row = self.runs.rows[index.row()]
        if isinstance(row, GroupRow):
            self.folded.emit(row.value)
        else:
            self.opened.emit(row.id)

    def _extend(self, index: QModelIndex, by: int) -> None:
        """Move the current row, and choose what lies between it and where this began."""
        row = min(max(0, index.row() + by), self.runs.rowCount() - 1)
        start = self._anchor or self.runs.rows[index.row()].id
        self._anchor = start
        self.setCurrentIndex(self.runs.index(row, index.column()))
        self._choose_range(start, row)

    def _choose_range(self, start: str | None, row: int) -> None:
        begin = self.runs.row_of(start, row)
        first, last = sorted((row if begin < 0 else begin, row))
        rows = (self.runs.rows[number] for number in range(first, last + 1))
        self.added.emit([each.id for each in rows if isinstance(each, RunInfo)])

    def _current_id(self) -> str | None:
        index = self.currentIndex()
        return self.runs.rows[index.row()].id if index.isValid() else None

    def _top_id(self) -> str | None:
        row = self.rowAt(0)
        return self.runs.rows[row].id if row >= 0 else None

    def _is_in_sight(self, index: QModelIndex) -> bool:
        return index.isValid() and self.viewport().rect().intersects(self.visualRect(index))

    def _arrange_header(self) -> None:
        """Give each column its width, in the order of the model."""
        header = self.horizontalHeader()
        for place, column in enumerate(self.runs.columns):
            if header.visualIndex(place) != place:
                header.moveSection(header.visualIndex(place), place)
            usual = max(usual_width(column), self._title_width(place))
            header.resizeSection(place, self.widths.get(column.name, usual))
        self.updateGeometry()

    def _title_width(self, section: int) -> int:
        """Return the width of a title with the arrow of a sorted column: a click moves nothing."""
        header = self.horizontalHeader()
        font = header.font()
        font.setBold(True)
        sorted_title = f"{header_text(self.runs.columns[section])} {ASCENDING}"
        title = str(self.runs.headerData(section, Qt.Orientation.Horizontal))
        width = QFontMetrics(font).horizontalAdvance
        return header.sectionSizeHint(section) + width(sorted_title) - width(title)

    def _header_clicked(self, section: int) -> None:
        self.sort_wanted.emit(self.runs.columns[section].name)

    def _section_moved(self, *_: int) -> None:
        if not self._is_filling:
            self.layout_changed.emit()

    def _section_resized(self, section: int, _: int, width: int) -> None:
        is_last = self.horizontalHeader().visualIndex(section) == self.runs.columnCount() - 1
        if not self._is_filling and not is_last and section < self.runs.columnCount():
            self.widths[self.runs.columns[section].name] = width
            self.layout_changed.emit()

    def _header_menu(self, position: object) -> None:
        header = self.horizontalHeader()
        section = header.logicalIndexAt(position)  # type: ignore[call-overload]
        if section >= 0:
            place = header.viewport().mapToGlobal(position)  # type: ignore[call-overload]
            self.header_menu_wanted.emit(place, self.runs.columns[section].name)


def usual_width(column: Column) -> int:
    """Return the width that a column has at first."""
    if column.name in _WIDTHS:
        return _WIDTHS[column.name]
    if is_curve(column):
        return _CURVE_WIDTH
    if column.metric:
        return _METRIC_WIDTH
    if column.kind is Kind.DURATION:
        return _DURATION_WIDTH
    is_number = column.kind in (Kind.NUMBER, Kind.FLAG)
    return _NUMBER_WIDTH if is_number else _TEXT_WIDTH


def _ids(row: RunInfo | GroupRow) -> list[str]:
    return [row.id] if isinstance(row, RunInfo) else [info.id for info in row.runs]
