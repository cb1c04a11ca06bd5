"""The table of the comparison: what differs between the settings of the runs, and their figures."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QBrush, QColor
from PySide6.QtWidgets import QAbstractItemView, QTableWidget, QTableWidgetItem, QWidget

from engine.client import RunInfo
from gui.compare.differences import Row
from gui.state_look import dot_icon
from gui.theme import Theme

_ROW_HEIGHT = 24
_LABEL_WIDTH = 170
_LEAST_WIDTH = 140
_BAR_WIDTH = 20


class ComparisonTable(QTableWidget):
    """A column for each run, in its colour; figures first, then the settings that differ."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._shown: tuple[object, ...] = ()
        self.setAccessibleName("Figures and settings of the compared runs")
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setShowGrid(False)
        self.verticalHeader().setVisible(False)
        self.verticalHeader().setDefaultSectionSize(_ROW_HEIGHT)
        header = self.horizontalHeader()
        header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        header.setHighlightSections(False)
        header.setIconSize(QSize(10, 10))
        header.setMinimumSectionSize(80)

    def show_rows(
        self,
        infos: Sequence[RunInfo],
        colours: Sequence[str],
        baseline: str | None,
        figures: Sequence[Row],
        settings: Sequence[Row],
    ) -> None:
        """Show the runs with their `colours`, their figures and the settings that differ."""
        titles = [f"#{info.id} {info.name}" for info in infos]
        shown = (titles, tuple(colours), baseline, tuple(figures), tuple(settings))
        if shown == self._shown:
            return
        self._shown = shown
        self.setRowCount(0)
        if not infos:
            return
        self._set_columns(infos, titles, colours, baseline)
        self.clearSpans()
        self._add_heading("FIGURES")
        for row in figures:
            self._add(row)
        self._add_heading("SETTINGS THAT DIFFER" if settings else "NO SETTING DIFFERS")
        for row in settings:
            self._add(row)

    def set_theme(self, theme: Theme) -> None:
        """Draw in the colours of `theme` from the next `show_rows` on."""
        self._theme = theme
        self._shown = ()

    def _set_columns(
        self,
        infos: Sequence[RunInfo],
        titles: Sequence[str],
        colours: Sequence[str],
        baseline: str | None,
    ) -> None:
        if self.columnCount() != len(titles) + 1:
            self.setColumnCount(len(titles) + 1)
            room = max(self.width() - _LABEL_WIDTH - _BAR_WIDTH, 0) // max(len(titles), 1)
            self.setColumnWidth(0, _LABEL_WIDTH)
            for column in range(1, len(titles) + 1):
                self.setColumnWidth(column, max(_LEAST_WIDTH, min(room, 260)))
        self.setHorizontalHeaderItem(0, QTableWidgetItem(""))
        for column, (info, title, colour) in enumerate(zip(infos, titles, colours, strict=True), 1):
            pinned = info.id == baseline
            item = QTableWidgetItem(dot_icon(colour), f"{title} (baseline)" if pinned else title)
            item.setToolTip(info.title)
            self.setHorizontalHeaderItem(column, item)

    def _add_heading(self, text: str) -> None:
        row = self.rowCount()
        self.insertRow(row)
        item = QTableWidgetItem(text)
        item.setFlags(Qt.ItemFlag.NoItemFlags)
        item.setForeground(QBrush(QColor(self._theme.muted)))
        font = self.font()
        font.setPixelSize(11)
        font.setBold(True)
        item.setFont(font)
        self.setItem(row, 0, item)
        self.setSpan(row, 0, 1, max(self.columnCount(), 1))

    def _add(self, row: Row) -> None:
        number = self.rowCount()
        self.insertRow(number)
        label = QTableWidgetItem(row.label)
        label.setForeground(QBrush(QColor(self._theme.muted)))
        label.setToolTip(row.tip or row.label)
        self.setItem(number, 0, label)
        for place, value in enumerate(row.values):
            item = QTableWidgetItem(f"★ {value}" if place in row.best else value)
            item.setToolTip(value)
            if place in row.best:
                item.setForeground(QBrush(QColor(self._theme.warn)))
            self.setItem(number, place + 1, item)
