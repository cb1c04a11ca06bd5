"""The table of a race: a row for each entry, with bars; the fastest one first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from PySide6.QtCore import QModelIndex, QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QHeaderView, QScrollArea, QSizePolicy, QWidget

from engine.planning.results import Entry
from gui.planning import race_text
from gui.planning.race_cells import HEADER_HEIGHT, ROW_HEIGHT, CellDelegate
from gui.planning.race_columns import Column
from gui.planning.race_text import DisplayName
from gui.widgets.plain_text import wrapped
from gui.widgets.table import LEFT, RIGHT, Table, TableModel

_ALIGNED_RIGHT = {Column.EFFICIENCY, Column.FIRST_STEP, Column.JOULES}
_WIDTHS = {
    Column.MEMORY: 150,
    Column.EFFICIENCY: 84,
    Column.FIRST_STEP: 84,
    Column.JOULES: 84,
    Column.SHARES: 180,
}
"""Logical pixels; the other columns share the rest."""

_NARROW_WIDTHS = {Column.MEMORY: 118, Column.EFFICIENCY: 76}
_LEAST_RATE, _LEAST_NAME, _MOST_NAME = 170, 140, 260
_WIDE_RATE = 300
"""With less, the columns of less interest are left out."""

_LEAVE_OUT = {Column.JOULES: _WIDE_RATE, Column.FIRST_STEP: _WIDE_RATE, Column.SHARES: _LEAST_RATE}
"""What is left out where the bars of speed would have less room than this; the tooltip has it."""


class RaceModel(TableModel[Entry, Column]):
    """The entries, in order of their speed."""

    def __init__(self) -> None:
        super().__init__()
        self.columns = list(Column)
        self.totals: dict[str, float] = {}
        """The memory of each device of this machine, in bytes; of the CPU by the name `cpu`."""

        self.differing: frozenset[str] = frozenset()
        self._is_narrow = False
        self._display: DisplayName = str

    def title(self, column: Column) -> str:
        """Return the caption of a column."""
        return self._captions()[column]

    def alignment(self, column: Column) -> Qt.AlignmentFlag:
        """Return where the texts of a column stand."""
        return RIGHT if column in _ALIGNED_RIGHT else LEFT

    def tip(self, entry: Entry, column: Column) -> str:
        """Return all that is known of an entry."""
        return wrapped(self.sentence(entry))

    def spoken(self, entry: Entry, column: Column) -> str:
        """Return all that is known of an entry beside its name, else the text of the cell."""
        is_name = column is Column.NAME
        return self.sentence(entry) if is_name else super().spoken(entry, column)

    def text(self, entry: Entry, column: Column) -> str:
        """Return what a cell says."""
        match column:
            case Column.NAME:
                return race_text.name(entry, self.differing)
            case Column.RATE:
                return entry.problem or race_text.rate(entry)
            case Column.MEMORY:
                return race_text.memory(entry, self.totals)
            case Column.EFFICIENCY:
                return race_text.efficiency(entry)
            case Column.FIRST_STEP:
                return race_text.first_step(entry)
            case Column.JOULES:
                return race_text.joules(entry)
            case Column.SHARES:
                return race_text.shares(entry) or race_text.NOTHING

    def sentence(self, entry: Entry) -> str:
        """Return all that is known of an entry."""
        return race_text.sentence(entry, self.totals, self._display)

    def show_entries(self, entries: Iterable[Entry]) -> None:
        """Show these entries, and no others."""
        self.beginResetModel()
        self.rows = race_text.ordered(entries)
        self.differing = race_text.differing(self.rows)
        self.endResetModel()

    def set_devices(self, totals: Mapping[str, float], display: DisplayName) -> None:
        """Set the memory of the devices, in bytes, and what they are called."""
        self._display = display
        if totals != self.totals:
            self.totals = dict(totals)
            self.report_changes()

    def set_narrow(self, narrow: bool) -> None:
        """Use short captions."""
        if narrow != self._is_narrow:
            self._is_narrow = narrow
            self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(Column) - 1)

    @property
    def fastest_rate(self) -> float:
        """The most samples per second of all entries."""
        return max((entry.samples_per_second or 0.0 for entry in self.rows), default=0.0)

    def _captions(self) -> dict[Column, str]:
        return {
            Column.NAME: "Strategy",
            Column.RATE: "Samples/s, median",
            Column.MEMORY: "Memory" if self._is_narrow else "Memory per device",
            Column.EFFICIENCY: "Efficiency",
            Column.FIRST_STEP: "First step",
            Column.JOULES: "Per sample",
            Column.SHARES: "Step: compute, comm., data",
        }


class RaceTable(Table):
    """As high as its rows; what has no room is left out, and nothing scrolls sideways."""

    chosen = Signal(object)
    """The Entry that the user wants in the form."""

    current_changed = Signal(object)
    """The Entry of the current row; None: there is none."""

    def __init__(self) -> None:
        super().__init__("Strategies by speed", ROW_HEIGHT)
        self._model = RaceModel()
        self.setModel(self._model)
        self.setItemDelegate(CellDelegate(self._model, self))
        self.setMouseTracking(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        header = self.horizontalHeader()
        header.setFixedHeight(HEADER_HEIGHT)
        header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header.setSectionsClickable(False)
        header.setMinimumSectionSize(10)
        self.activated.connect(self._activate)
        self.selectionModel().currentRowChanged.connect(lambda *_: self._report_current())

    @property
    def entries(self) -> Sequence[Entry]:
        """The entries, the fastest first."""
        return self._model.rows

    def current(self) -> Entry | None:
        """Return the entry of the current row."""
        row = self.currentIndex().row()
        return self.entries[row] if 0 <= row < len(self.entries) else None

    def sentence(self, entry: Entry) -> str:
        """Return all that is known of an entry."""
        return self._model.sentence(entry)

    def show_entries(self, entries: Iterable[Entry]) -> None:
        """Show these entries; the current one stays current."""
        current = self.current()
        self._model.show_entries(entries)
        if current is not None and current in self.entries:
            self.selectRow(self.entries.index(current))
        else:
            self._report_current()
        self._share_width()
        self.updateGeometry()

    def set_devices(self, totals: Mapping[str, float], display: DisplayName) -> None:
        """Set the memory of the devices, in bytes, and what they are called."""
        self._model.set_devices(totals, display)

    def sizeHint(self) -> QSize:
        """All rows, and at least one."""
        rows = max(1, len(self.entries))
        return QSize(400, HEADER_HEIGHT + rows * ROW_HEIGHT + 2 * self.frameWidth())

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self.sizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Share the width anew."""
        super().resizeEvent(event)
        self._share_width()

    def _share_width(self) -> None:
        room = self.viewport().width()
        is_told = {Column.JOULES: any(entry.joules is not None for entry in self.entries)}
        shown = [column for column in Column if is_told.get(column, True)]

        def fixed() -> int:
            return sum(_WIDTHS.get(column, 0) for column in shown)

        for column, least in _LEAVE_OUT.items():
            if fixed() + self._name_width() + least > room and column in shown:
                shown.remove(column)
        widths = {column: _WIDTHS.get(column, 0) for column in shown}
        is_narrow = fixed() + self._name_width() + _LEAST_RATE > room
        self._model.set_narrow(is_narrow)
        if is_narrow:
            widths |= _NARROW_WIDTHS
        rest = room - sum(widths.values())
        widths[Column.NAME] = max(_LEAST_NAME, min(self._name_width(), rest // 2))
        widths[Column.RATE] = max(0, rest - widths[Column.NAME])
        for column in Column:
            self.setColumnHidden(column, column not in shown)
            if column in shown:
                self.setColumnWidth(column, widths[column])

    def _name_width(self) -> int:
        metrics = self.fontMetrics()
        names = [metrics.horizontalAdvance(race_text.title(each)) for each in self.entries]
        return max(_LEAST_NAME, min(_MOST_NAME, max(names, default=0) + 40))

    def _activate(self, index: QModelIndex) -> None:
        if index.isValid():
            self.chosen.emit(self.entries[index.row()])

    def _report_current(self) -> None:
        self.current_changed.emit(self.current())
        around: QWidget | None = self.parentWidget()
        while around is not None and not isinstance(around, QScrollArea):
            around = around.parentWidget()
        content = around.widget() if around is not None else None
        if around is not None and content is not None and self.hasFocus():
            row = self.visualRect(self.currentIndex()).translated(self.viewport().pos())
            at = self.mapTo(content, row.center())
            around.ensureVisible(at.x(), at.y(), 0, ROW_HEIGHT)
