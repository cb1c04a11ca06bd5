"""The grid of plots in a scroll area: main plots in equally wide rows, detail plots below them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from PySide6.QtCore import Signal
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDragMoveEvent, QDropEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QScrollArea, QWidget

from gui.plots.data.series_style import PlotKind
from gui.plots.plot.curve_plot import MIN_HEIGHT, CurvePlot
from gui.plots.plot.header import DRAGGED

WIDE_WINDOW = 1920
"""From this window width on (logical pixels) a row has three plots."""

_SIXTHS = 6
"""Columns of the underlying grid: rows of one, two or three plots divide it evenly."""

_DETAIL_HEIGHT = 170
"""Height of a detail plot, in logical pixels."""

_MAIN_ROW_HEIGHT = 250
"""Row height of the main plots (logical pixels) that has priority over showing the detail plots."""

_DETAIL_TOP = 36
"""Logical pixels of the detail plots that are always visible: their titles and newest values."""

_UNLIMITED_HEIGHT = 16_777_215
"""Qt's value for an unlimited height."""


class GridLayout(QScrollArea):
    """Shows the plots, and lets the user drop a plot on another plot of the same group."""

    dropped = Signal(str, str)
    """Title of the dropped plot, and title of the plot whose position it takes."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setAccessibleName(self.tr("Plots"))
        self.setFrameShape(QFrame.Shape.NoFrame)
        content = self._content = QWidget()
        content.setObjectName("content")
        self._grid = QGridLayout(content)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(8)
        for column in range(_SIXTHS):
            self._grid.setColumnStretch(column, 1)
        self.setWidget(content)
        self.setAcceptDrops(True)
        self._plots: dict[PlotKind, CurvePlot] = {}
        self._shown: tuple[int, list[PlotKind]] = (0, [])
        self._main_rows = 0
        self._target: CurvePlot | None = None

    def remove(self, plot: CurvePlot) -> None:
        """Remove `plot` and delete it."""
        self._grid.removeWidget(plot)
        plot.deleteLater()

    def show_plots(self, plots: Mapping[PlotKind, CurvePlot]) -> None:
        """Show exactly `plots`, in their order: in two columns, or three in a wide window. A single
        plot fills the area."""
        columns = 3 if self.window().width() >= WIDE_WINDOW else 2
        for kind, plot in self._plots.items():
            if kind not in plots:
                self._grid.removeWidget(plot)
                plot.hide()
        self._plots = dict(plots)
        if (columns, list(plots)) != self._shown:
            self._shown = columns, list(plots)
            self._place(columns)
        self._distribute_height()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Distribute the new height."""
        super().resizeEvent(event)
        self._distribute_height()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Accept dragged plots."""
        if event.mimeData().hasFormat(DRAGGED):
            event.acceptProposedAction()

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        """Highlight the plot that is the drop target."""
        target = self._target_of(event)
        self._highlight(target)
        event.setAccepted(target is not None)

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        """Remove the highlight of the drop target."""
        self._highlight(None)

    def dropEvent(self, event: QDropEvent) -> None:
        """Emit `dropped` for the plot under the mouse."""
        target = self._target_of(event)
        self._highlight(None)
        if target is not None:
            event.acceptProposedAction()
            self.dropped.emit(_title(event), target.title)

    def _place(self, columns: int) -> None:
        for plot in self._plots.values():
            self._grid.removeWidget(plot)
            plot.setMinimumHeight(MIN_HEIGHT)
            plot.setMaximumHeight(_UNLIMITED_HEIGHT)
        details = [plot for kind, plot in self._plots.items() if kind.is_detail]
        details = details if len(self._plots) > 1 else []
        for plot in details:
            plot.setFixedHeight(_DETAIL_HEIGHT)
        main = rows([plot for plot in self._plots.values() if plot not in details], columns)
        self._main_rows = len(main)
        for row, members in enumerate(main + rows(details, columns)):
            span = _SIXTHS // len(members)
            for number, plot in enumerate(members):
                self._grid.addWidget(plot, row, number * span, 1, span)
                plot.show()

    def _distribute_height(self) -> None:
        """Give the main plots their height and the detail plots the rest; the user can scroll to
        what does not fit."""
        has_details = self._grid.count() > 0 and any(kind.is_detail for kind in self._plots)
        below = _DETAIL_TOP if has_details or len(self._plots) > 1 else 0
        height = (self.viewport().height() - below) // max(
            self._main_rows, 1
        ) - self._grid.spacing()
        min_height = min(height, _MAIN_ROW_HEIGHT) if has_details else 0
        for row in range(self._grid.rowCount()):
            is_main = row < self._main_rows
            self._grid.setRowStretch(row, int(is_main))
            self._grid.setRowMinimumHeight(row, min_height if is_main else 0)

    def _target_of(self, event: QDropEvent) -> CurvePlot | None:
        position = self._content.mapFrom(self, event.position().toPoint())
        details = {plot.title: kind.is_detail for kind, plot in self._plots.items()}
        for plot in self._plots.values():
            if plot.geometry().contains(position):
                same_group = details.get(_title(event)) == details[plot.title]
                return plot if same_group and plot.title != _title(event) else None
        return None

    def _highlight(self, target: CurvePlot | None) -> None:
        for plot, highlighted in ((self._target, False), (target, True)):
            if plot is not None:
                plot.setProperty("aimed", highlighted)
                plot.style().polish(plot)
        self._target = target


def _title(event: QDropEvent) -> str:
    return bytes(event.mimeData().data(DRAGGED).data()).decode()


def rows(plots: Sequence[CurvePlot], columns: int) -> list[Sequence[CurvePlot]]:
    """Split `plots` into as few rows as `columns` allow, the longer rows first."""
    if not plots:
        return []
    count = -(-len(plots) // columns)
    short, longer = divmod(len(plots), count)
    ends = [short * row + min(row, longer) for row in range(count + 1)]
    return [plots[start:end] for start, end in pairwise(ends)]
