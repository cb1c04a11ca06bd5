"""Where the plots stand: in equally wide rows, and the details in lower rows below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from PySide6.QtCore import Signal
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDragMoveEvent, QDropEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QScrollArea, QWidget

from gui.plots.data.series_style import PlotKind
from gui.plots.plot.curve_plot import MIN_HEIGHT, CurvePlot
from gui.plots.plot.header import DRAGGED

WIDE = 1920
"""Logical pixels of the window from which on three plots stand beside each other."""

_SIXTHS = 6
"""Columns of the grid behind: rows of one, two and three plots divide it."""

_DETAIL_HEIGHT = 170
"""Logical pixels of a plot that is a detail."""

_GOOD_HEIGHT = 250
"""Logical pixels up to which a row of the other plots comes before the details."""

_PEEK = 36
"""Logical pixels of the details that are in sight anyhow: their titles and newest values."""

_HIGHEST = 16_777_215
"""Qt's word for a height without limit."""


class GridLayout(QScrollArea):
    """Shows the plots, and lets one be dropped on another of its group."""

    dropped = Signal(str, str)
    """Title of a plot, and of the one whose place it is to take."""

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
        """Take `plot` out; it is deleted."""
        self._grid.removeWidget(plot)
        plot.deleteLater()

    def show_plots(self, plots: Mapping[PlotKind, CurvePlot]) -> None:
        """Show exactly `plots`, in their order: in two columns, or three in a wide window. One that
        is alone gets all the room."""
        columns = 3 if self.window().width() >= WIDE else 2
        for kind, plot in self._plots.items():
            if kind not in plots:
                self._grid.removeWidget(plot)
                plot.hide()
        self._plots = dict(plots)
        if (columns, list(plots)) != self._shown:
            self._shown = columns, list(plots)
            self._place(columns)
        self._share_height()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Share the new height."""
        super().resizeEvent(event)
        self._share_height()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Take plots."""
        if event.mimeData().hasFormat(DRAGGED):
            event.acceptProposedAction()

    def dragMoveEvent(self, event: QDragMoveEvent) -> None:
        """Show which plot's place would be taken."""
        target = self._target_of(event)
        self._aim_at(target)
        event.setAccepted(target is not None)

    def dragLeaveEvent(self, event: QDragLeaveEvent) -> None:
        """Forget about it."""
        self._aim_at(None)

    def dropEvent(self, event: QDropEvent) -> None:
        """Tell whose place is to be taken."""
        target = self._target_of(event)
        self._aim_at(None)
        if target is not None:
            event.acceptProposedAction()
            self.dropped.emit(_title(event), target.title)

    def _place(self, columns: int) -> None:
        for plot in self._plots.values():
            self._grid.removeWidget(plot)
            plot.setMinimumHeight(MIN_HEIGHT)
            plot.setMaximumHeight(_HIGHEST)
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

    def _share_height(self) -> None:
        """Give the details what the other plots can spare; the rest is reached by scrolling."""
        has_details = self._grid.count() > 0 and any(kind.is_detail for kind in self._plots)
        peek = _PEEK if has_details or len(self._plots) > 1 else 0
        room = (self.viewport().height() - peek) // max(self._main_rows, 1) - self._grid.spacing()
        least = min(room, _GOOD_HEIGHT) if has_details else 0
        for row in range(self._grid.rowCount()):
            is_main = row < self._main_rows
            self._grid.setRowStretch(row, int(is_main))
            self._grid.setRowMinimumHeight(row, least if is_main else 0)

    def _target_of(self, event: QDropEvent) -> CurvePlot | None:
        place = self._content.mapFrom(self, event.position().toPoint())
        details = {plot.title: kind.is_detail for kind, plot in self._plots.items()}
        for plot in self._plots.values():
            if plot.geometry().contains(place):
                same_group = details.get(_title(event)) == details[plot.title]
                return plot if same_group and plot.title != _title(event) else None
        return None

    def _aim_at(self, target: CurvePlot | None) -> None:
        for plot, aimed in ((self._target, False), (target, True)):
            if plot is not None:
                plot.setProperty("aimed", aimed)
                plot.style().polish(plot)
        self._target = target


def _title(event: QDropEvent) -> str:
    return bytes(event.mimeData().data(DRAGGED).data()).decode()


def rows(plots: Sequence[CurvePlot], columns: int) -> list[Sequence[CurvePlot]]:
    """`plots` in as few rows as `columns` allow, the longer rows first."""
    if not plots:
        return []
    count = -(-len(plots) // columns)
    short, longer = divmod(len(plots), count)
    ends = [short * row + min(row, longer) for row in range(count + 1)]
    return [plots[start:end] for start, end in pairwise(ends)]
