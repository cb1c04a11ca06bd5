"""The table of the comparison: figures of the runs, and the settings that differ."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QAction, QColor, QGuiApplication, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QTableWidget, QTableWidgetItem, QWidget

from engine.runs.run_info import RunInfo
from gui.compare.differences import ComparisonRow
from gui.style.state_style import dot_icon
from gui.style.theme import Theme, icon
from gui.widgets.plain_text import plain_tip

_ROW_HEIGHT = 24
_LABEL_WIDTH = 170
_MIN_WIDTH = 140
_SCROLL_BAR_WIDTH = 20


class ComparisonTable(QTableWidget):
    """One column per run, in its colour; figures first, then the settings that differ."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._shown: tuple[object, ...] = ()
        self._layout: tuple[object, ...] = ()
        self._columns: list[str] = []
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
        header.setTextElideMode(Qt.TextElideMode.ElideMiddle)
        header.setMinimumSectionSize(80)
        self.copy = QAction("Copy the table, or the selected rows", self)
        self.copy.setShortcut(QKeySequence(QKeySequence.StandardKey.Copy))
        self.copy.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        self.copy.triggered.connect(self._copy)
        self.addAction(self.copy)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)

    def show_rows(
        self,
        infos: Sequence[RunInfo],
        colours: Sequence[str],
        baseline: str | None,
        figures: Sequence[ComparisonRow],
        settings: Sequence[ComparisonRow],
    ) -> None:
        """Show the runs in their `colours`, their figures, and the settings that differ."""
        titles = [f"#{info.id} {info.name}" for info in infos]
        shown = (titles, tuple(colours), baseline, tuple(figures), tuple(settings))
        if shown == self._shown:
            return
        self._shown = shown
        heading = "SETTINGS THAT DIFFER" if settings else "NO SETTING DIFFERS"
        rows: list[ComparisonRow | str] = ["SUMMARY", *figures, heading, *settings]
        layout = (len(infos), *(row if isinstance(row, str) else row.label for row in rows))
        if layout != self._layout:
            self._layout = layout
            self._build(len(infos), rows if infos else [])
        self._set_header(infos, titles, colours, baseline)
        for number, row in enumerate(rows if infos else []):
            if isinstance(row, ComparisonRow):
                self._fill(number, row)

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of `theme` at the next `show_rows`."""
        self._theme = theme
        self._shown = self._layout = ()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Distribute the width over the runs."""
        super().resizeEvent(event)
        self._distribute_width()

    def text(self, rows: Sequence[int] = ()) -> str:
        """Return the table, or these rows of it, as tab-separated values with a title line."""
        columns = range(self.columnCount())
        lines = [["", *self._columns]]
        for row in rows or range(self.rowCount()):
            items = [self.item(row, column) for column in columns]
            lines.append([item.text().removeprefix("★ ") if item else "" for item in items])
        return "".join("\t".join(line).rstrip("\t") + "\n" for line in lines)

    def _copy(self) -> None:
        rows = sorted(index.row() for index in self.selectionModel().selectedRows())
        QGuiApplication.clipboard().setText(self.text(rows))

    def _build(self, runs: int, rows: Sequence[ComparisonRow | str]) -> None:
        """Create the cells; `_fill` writes their texts, and again when they change."""
        self.clearSpans()
        self.setRowCount(len(rows))
        if self.columnCount() != runs + 1:
            self.setColumnCount(runs + 1)
            self._distribute_width()
        for number, row in enumerate(rows):
            label = QTableWidgetItem(row if isinstance(row, str) else row.label)
            label.setForeground(QColor(self._theme.muted))
            self.setItem(number, 0, label)
            for column in range(1, runs + 1):
                self.setItem(number, column, QTableWidgetItem())
            if isinstance(row, str):
                label.setFlags(Qt.ItemFlag.NoItemFlags)
                font = self.font()
                font.setPixelSize(11)
                font.setBold(True)
                label.setFont(font)
                self.setSpan(number, 0, 1, runs + 1)
            else:
                label.setToolTip(plain_tip(row.tip or row.label))

    def _distribute_width(self) -> None:
        runs = self.columnCount() - 1
        width = max(self.width() - _LABEL_WIDTH - _SCROLL_BAR_WIDTH, 0) // max(runs, 1)
        for column in range(runs + 1):
            wide = max(_MIN_WIDTH, width) if column else _LABEL_WIDTH
            self.setColumnWidth(column, wide)

    def _fill(self, number: int, row: ComparisonRow) -> None:
        for place, value in enumerate(row.values):
            best = place in row.best
            if item := self.item(number, place + 1):
                item.setText(f"★ {value}" if best else value)
                item.setToolTip(plain_tip(value))
                item.setForeground(QColor(self._theme.warn if best else self._theme.text))

    def _set_header(
        self,
        infos: Sequence[RunInfo],
        titles: Sequence[str],
        colours: Sequence[str],
        baseline: str | None,
    ) -> None:
        self.setHorizontalHeaderItem(0, QTableWidgetItem(""))
        self._columns = list(titles)
        for column, (info, title, colour) in enumerate(zip(infos, titles, colours, strict=True), 1):
            pinned = info.id == baseline
            picture = icon("push-pin", colour) if pinned else dot_icon(colour)
            item = QTableWidgetItem(picture, title)
            tip = f"{info.title}: the baseline" if pinned else info.title
            item.setToolTip(plain_tip(tip))
            self.setHorizontalHeaderItem(column, item)
