"""Where the plots stand: in equally wide rows, and the details in lower rows below."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QScrollArea, QWidget

from gui.plots.curve_plot import CurvePlot
from gui.plots.routes import PlotKind

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


class Arrangement(QScrollArea):
    """Shows the plots; there are always some that are no details."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        content = QWidget()
        content.setObjectName("content")
        self._grid = QGridLayout(content)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(8)
        for column in range(_SIXTHS):
            self._grid.setColumnStretch(column, 1)
        self.setWidget(content)
        self._shown: tuple[int, list[PlotKind]] = (0, [])
        self._main_rows = 0

    def remove(self, plot: CurvePlot) -> None:
        """Take `plot` out; it is deleted."""
        self._grid.removeWidget(plot)
        plot.deleteLater()

    def show_plots(self, plots: Mapping[PlotKind, CurvePlot]) -> None:
        """Show exactly `plots`, in their order: in two columns, or three in a wide window."""
        columns = 3 if self.window().width() >= WIDE else 2
        if (columns, list(plots)) != self._shown:
            self._shown = columns, list(plots)
            for plot in plots.values():
                self._grid.removeWidget(plot)
            details = [plot for kind, plot in plots.items() if kind.is_detail]
            for plot in details:
                plot.setFixedHeight(_DETAIL_HEIGHT)
            main = rows([plot for plot in plots.values() if plot not in details], columns)
            self._main_rows = len(main)
            for row, members in enumerate(main + rows(details, columns)):
                span = _SIXTHS // len(members)
                for number, plot in enumerate(members):
                    self._grid.addWidget(plot, row, number * span, 1, span)
        self._share_height()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Share the new height."""
        super().resizeEvent(event)
        self._share_height()

    def _share_height(self) -> None:
        """Give the details what the other plots can spare; the rest is reached by scrolling."""
        if not self._main_rows:
            return
        has_details = any(kind.is_detail for kind in self._shown[1])
        room = (self.viewport().height() - _PEEK) // self._main_rows - self._grid.spacing()
        least = min(room, _GOOD_HEIGHT) if has_details else 0
        for row in range(self._grid.rowCount()):
            is_main = row < self._main_rows
            self._grid.setRowStretch(row, int(is_main))
            self._grid.setRowMinimumHeight(row, least if is_main else 0)


def rows(plots: Sequence[CurvePlot], columns: int) -> list[Sequence[CurvePlot]]:
    """`plots` in as few rows as `columns` allow, the longer rows first."""
    if not plots:
        return []
    count = -(-len(plots) // columns)
    short, longer = divmod(len(plots), count)
    ends = [short * row + min(row, longer) for row in range(count + 1)]
    return [plots[start:end] for start, end in pairwise(ends)]
