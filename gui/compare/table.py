"""The table of the comparison: figures of the runs, and the settings that differ."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QColor, QFont, QIcon, QResizeEvent
from PySide6.QtWidgets import QWidget

from engine.runs.run_info import RunInfo
from gui.compare.differences import ComparisonRow
from gui.style.state_style import dot_icon
from gui.style.theme import Theme, icon
from gui.widgets.plain_text import plain_tip
from gui.widgets.table import BEST, Index, Table, TableModel

_ROW_HEIGHT = 24
_LABEL_WIDTH = 170
_MIN_WIDTH = 140
_SCROLL_BAR_WIDTH = 20
_HEADING_HEIGHT = 11


class ComparisonModel(TableModel[ComparisonRow | str, int]):
    """A row that is a text is a heading; column 0 has the labels, the others a run each."""

    def __init__(self, theme: Theme, parent: QWidget) -> None:
        super().__init__(parent)
        self.theme = theme
        self.infos: Sequence[RunInfo] = ()
        self.pictures: Sequence[QIcon] = ()
        self.baseline: str | None = None

    def title(self, column: int) -> str:
        """Return number and name of a run."""
        return f"#{self.infos[column - 1].id} {self.infos[column - 1].name}" if column else ""

    def title_look(self, column: int, role: int) -> object:
        """Return the colour of a run, and its whole title."""
        if not column:
            return None
        info = self.infos[column - 1]
        match role:
            case Qt.ItemDataRole.DecorationRole:
                return self.pictures[column - 1]
            case Qt.ItemDataRole.ToolTipRole:
                is_pinned = info.id == self.baseline
                return plain_tip(f"{info.title}: the baseline" if is_pinned else info.title)
        return None

    def text(self, row: ComparisonRow | str, column: int) -> str:
        """Return the text of a cell."""
        if isinstance(row, str):
            return "" if column else row
        if not column:
            return row.label
        return f"{BEST if column - 1 in row.best else ''}{row.values[column - 1]}"

    def tip(self, row: ComparisonRow | str, column: int) -> str:
        """Return what a label means, or the whole value."""
        if isinstance(row, str):
            return ""
        return plain_tip(row.values[column - 1] if column else row.tip or row.label)

    def look(self, row: ComparisonRow | str, column: int, role: int) -> object:
        """Return the colour of a text, and the font of a heading."""
        if role == Qt.ItemDataRole.ForegroundRole:
            is_best = not isinstance(row, str) and column - 1 in row.best
            theme = self.theme
            return QColor((theme.warn if is_best else theme.text) if column else theme.muted)
        if role == Qt.ItemDataRole.FontRole and isinstance(row, str):
            font = QFont()
            font.setPixelSize(_HEADING_HEIGHT)
            font.setBold(True)
            return font
        return None

    def flags(self, index: Index) -> Qt.ItemFlag:
        """A heading is not chosen."""
        is_heading = isinstance(self.rows[index.row()], str)
        return Qt.ItemFlag.NoItemFlags if is_heading else super().flags(index)


class ComparisonTable(Table):
    """One column per run, in its colour; figures first, then the settings that differ."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        name = "Figures and settings of the compared runs"
        super().__init__(name, _ROW_HEIGHT, parent, single=False)
        self._shown: tuple[object, ...] = ()
        self._layout: tuple[object, ...] = ()
        self._runs = ComparisonModel(theme, self)
        self.setModel(self._runs)
        header = self.horizontalHeader()
        header.setIconSize(QSize(10, 10))
        header.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        header.setMinimumSectionSize(80)
        self.copy = self.add_copy("Copy the table, or the selected rows")

    def show_rows(
        self,
        infos: Sequence[RunInfo],
        colours: Sequence[str],
        baseline: str | None,
        figures: Sequence[ComparisonRow],
        settings: Sequence[ComparisonRow],
    ) -> None:
        """Show the runs in their `colours`, their figures, and the settings that differ."""
        titles = [(info.id, info.title) for info in infos]
        shown = (titles, tuple(colours), baseline, tuple(figures), tuple(settings))
        if shown == self._shown:
            return
        self._shown = shown
        heading = "SETTINGS THAT DIFFER" if settings else "NO SETTING DIFFERS"
        rows: list[ComparisonRow | str] = ["SUMMARY", *figures, heading, *settings]
        rows = rows if infos else []
        layout = (len(infos), *(row if isinstance(row, str) else row.label for row in rows))
        is_other, self._layout = layout != self._layout, layout
        model = self._runs
        if is_other:
            model.beginResetModel()
        model.infos, model.baseline = infos, baseline
        model.pictures = [
            icon("push-pin", colour) if info.id == baseline else dot_icon(colour)
            for info, colour in zip(infos, colours, strict=True)
        ]
        model.rows, model.columns = rows, range(len(infos) + 1)
        if is_other:
            model.endResetModel()
            self.clearSpans()
            for number, row in enumerate(rows):
                if isinstance(row, str) and infos:
                    self.setSpan(number, 0, 1, len(infos) + 1)
            self._distribute_width()
        else:
            model.report_changes()
            model.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(infos))

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of `theme` at the next `show_rows`."""
        self._runs.theme = theme
        self._shown = ()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Distribute the width over the runs."""
        super().resizeEvent(event)
        self._distribute_width()

    def _distribute_width(self) -> None:
        runs = len(self._runs.infos)
        width = max(self.width() - _LABEL_WIDTH - _SCROLL_BAR_WIDTH, 0) // max(runs, 1)
        for column in self._runs.columns:
            self.setColumnWidth(column, max(_MIN_WIDTH, width) if column else _LABEL_WIDTH)
