"""The grid of plots in a scroll area: two high plots in the first row, lower ones below them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import (
    QDragEnterEvent,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QFrame, QScrollArea, QWidget

from gui.plots.data.series_style import PlotKind
from gui.plots.plot.curve_plot import MIN_HEIGHT, CurvePlot
from gui.plots.plot.header import DRAGGED

FIRST_HEIGHT = 280
"""Least height of the first row, in logical pixels, as long as the panel has room for it."""

_COLUMNS = ((2400, (3, 6)), (1400, (2, 4)), (660, (2, 3)), (0, (2, 2)))
"""From this width of the panel on (logical pixels), the number of plots in the first row, and the
highest number in the rows below it."""

_SPACING = 8
_LOW_HEIGHT = 190
"""Usual least height of the rows below the first one, in logical pixels."""

_FIRST_SHARE = 1.5
"""How much higher than the others the first row is, where the panel has room."""

_TITLE_HEIGHT = 36
"""Logical pixels of the second row that a low panel shows: titles and newest values."""


class GridLayout(QScrollArea):
    """Shows the plots, and lets the user drop a plot on another plot."""

    dropped = Signal(str, str)
    """Title of the dropped plot, and title of the plot whose position it takes."""

    wheeled = Signal(object)
    """The wheel has moved the plots below the mouse: its place on the screen (QPointF)."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWidgetResizable(True)
        self.setAccessibleName("Plots")
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._content = QWidget()
        self._content.setObjectName("content")
        self.setWidget(self._content)
        self.setAcceptDrops(True)
        self._plots: dict[PlotKind, CurvePlot] = {}
        self._target: CurvePlot | None = None
        self._is_low = False

    def set_low(self, low: bool) -> None:
        """Where there is room for one row only, show all of it, and nothing of the next one."""
        self._is_low = low
        self._arrange()

    def remove(self, plot: CurvePlot) -> None:
        """Remove `plot` and delete it."""
        self._plots = {kind: each for kind, each in self._plots.items() if each is not plot}
        plot.hide()
        plot.deleteLater()

    def show_plots(self, plots: Mapping[PlotKind, CurvePlot]) -> None:
        """Show exactly `plots`, in their order. A single plot fills the area."""
        for kind, plot in self._plots.items():
            if kind not in plots:
                plot.hide()
        self._plots = dict(plots)
        for plot in plots.values():
            if plot.parentWidget() is not self._content:
                plot.setParent(self._content)
        self._arrange()
        for plot in plots.values():
            plot.show()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Give the plots the new size."""
        super().resizeEvent(event)
        self._arrange()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Scroll; Qt tells no plot that the mouse is now elsewhere."""
        super().wheelEvent(event)
        self.wheeled.emit(event.globalPosition())

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

    def _arrange(self) -> None:
        # The width with the scroll bar: the number of columns must not depend on the bar.
        first, columns = next(counts for least, counts in _COLUMNS if self.width() >= least)
        plots = list(self._plots.values())
        members = [row for row in (plots[:first], *rows(plots[first:], columns)) if row]
        heights = row_heights(len(members), self.viewport().height(), low=self._is_low)
        top = 0
        for row, height in zip(members, heights, strict=True):
            width = self.viewport().width() + _SPACING
            edges = [width * place // len(row) for place in range(len(row) + 1)]
            for plot, (left, right) in zip(row, pairwise(edges), strict=True):
                plot.setGeometry(left, top, right - left - _SPACING, height)
            top += height + _SPACING
        self._content.setMinimumHeight(max(0, top - _SPACING))

    def _target_of(self, event: QDropEvent) -> CurvePlot | None:
        position = self._content.mapFrom(self, event.position().toPoint())
        for plot in self._plots.values():
            if plot.geometry().contains(position):
                return plot if plot.title != _title(event) else None
        return None

    def _highlight(self, target: CurvePlot | None) -> None:
        for plot, highlighted in ((self._target, False), (target, True)):
            if plot is not None:
                plot.setProperty("aimed", highlighted)
                plot.style().polish(plot)
        self._target = target


def _title(event: QDropEvent) -> str:
    return bytes(event.mimeData().data(DRAGGED).data()).decode()


def row_heights(count: int, available: int, *, low: bool = False) -> list[int]:
    """Return the heights of `count` rows in a panel of the height `available` (logical pixels). As
    many rows as fit fill the panel; the user can scroll to the others. Where one row fits, the
    titles of the next one are in sight, unless the panel is meant to be `low`."""
    fitting = 1 + max(0, available - FIRST_HEIGHT) // (_LOW_HEIGHT + _SPACING)
    if available >= FIRST_HEIGHT + _SPACING + MIN_HEIGHT:
        fitting = max(fitting, 2)
    visible = min(count, fitting)
    if count <= 1:
        return [max(available, MIN_HEIGHT)] * count
    if visible == 1:
        first = available if low else min(FIRST_HEIGHT, available - _SPACING - _TITLE_HEIGHT)
        return [max(first, MIN_HEIGHT), *[_LOW_HEIGHT] * (count - 1)]
    inside = available - _SPACING * (visible - 1)
    below = visible - 1
    height = min(int(inside / (below + _FIRST_SHARE)), (inside - FIRST_HEIGHT) // below)
    return [inside - height * below, *[height] * (count - 1)]


def rows(plots: Sequence[CurvePlot], columns: int) -> list[Sequence[CurvePlot]]:
    """Split `plots` into as few rows as `columns` allow, the longer rows first."""
    if not plots:
        return []
    count = -(-len(plots) // columns)
    short, longer = divmod(len(plots), count)
    ends = [short * row + min(row, longer) for row in range(count + 1)]
    return [plots[start:end] for start, end in pairwise(ends)]
