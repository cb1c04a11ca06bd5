"""The axes of a plot and the area between them, as the mouse finds them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt, Signal

from gui.plots import time_ticks
from gui.plots.x_scale import XKind
from gui.theme import Theme

_LOG_SUBDIVISIONS = (1, 2, 5)
_TICK_ROOM = 20
"""Logical pixels that a tick label needs."""

_TIME_ROOM = 80
"""The same for one of time, which stands beside the next."""


class Axis(pg.AxisItem):  # type: ignore[misc]  # pyqtgraph has no types
    """An axis with few, short tick labels; positions are log10 of the values in log mode."""

    kind = XKind.STEP
    """What a horizontal axis counts."""

    def set_kind(self, kind: XKind) -> None:
        """Label seconds as durations or as times of day, everything else as numbers."""
        self.kind = kind
        self.picture = None  # what pyqtgraph drew so far
        self.update()

    def tickValues(self, low: float, high: float, size: float) -> Any:
        """Round places, of time for an axis of time."""
        if not self.kind.is_time or high <= low:
            return super().tickValues(low, high, size)
        every = time_ticks.spacing(high - low, int(size / _TIME_ROOM))
        return [(every, time_ticks.ticks(low, high, every, wall=self.kind is XKind.WALL))]

    def tickStrings(self, values: list[float], scale: float, spacing: float | None) -> list[str]:
        """The label of each tick."""
        if self.kind.is_time and spacing:
            label = time_ticks.clock if self.kind is XKind.WALL else time_ticks.duration
            return [label(value, spacing) for value in values]
        return [short_number(10.0**value if self.logMode else value) for value in values]

    def logTickValues(
        self, low: float, high: float, size: float, ticks: list[tuple[float, list[float]]]
    ) -> list[tuple[float | None, list[float]]]:
        """1, 2 and 5 in every decade; every few decades where there are many."""
        every = max(1, math.ceil((high - low) * _TICK_ROOM / max(size, 1)))
        decades = range(math.floor(low) // every * every, math.ceil(high) + 1, every)
        steps = _LOG_SUBDIVISIONS if high - low < 1.5 else (1,)
        if high - low < 0.3:  # less than a factor of 2: as on a linear axis
            return [(None, [math.log10(value) for value in _round_between(10**low, 10**high)])]
        marks = [decade + math.log10(step) for decade in decades for step in steps]
        return [(None, [mark for mark in marks if low <= mark <= high])]

    def set_theme(self, theme: Theme) -> None:
        """Colour the labels and the line (below) or the grid (at the left)."""
        self.setTextPen(theme.muted)
        horizontal = self.orientation == "bottom"
        self.setPen(pg.mkPen(theme.line) if horizontal else pg.mkPen(None))
        self.setTickPen(pg.mkPen(theme.muted))
        self.setGrid(False if horizontal else theme.grid)


def short_number(value: float) -> str:
    """`0.25`, `40`, `2k`, `1.5M`, `2.5e-5`."""
    size = abs(value)
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if size >= limit:
            return f"{value / limit:.6g}{unit}" if size < 1e12 else f"{value:.1e}"
    if 1e-15 < size < 1e-3:
        mantissa, _, exponent = f"{value:.2e}".partition("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return f"{value:.4g}" if size >= 1e-3 else "0"


def _round_between(low: float, high: float) -> list[float]:
    step = 10.0 ** math.floor(math.log10(max(high - low, 1e-300)))
    return [float(value) for value in np.arange(math.ceil(low / step), high / step) * step]


class PlotArea(pg.ViewBox):  # type: ignore[misc]  # pyqtgraph has no types
    """Dragging zooms into a rectangle, the middle button pans, a double click asks for all."""

    fit_requested = Signal()

    def __init__(self) -> None:
        super().__init__(enableMenu=False, defaultPadding=0.0)
        self.disableAutoRange()
        self.setMouseMode(self.RectMode)

    def mouseDragEvent(self, event: Any, axis: int | None = None) -> None:
        """Take the drag as a zoom, or as panning with the middle button."""
        panning = event.button() == Qt.MouseButton.MiddleButton
        self.setMouseMode(self.PanMode if panning else self.RectMode)
        super().mouseDragEvent(event, axis)

    def mouseClickEvent(self, event: Any) -> None:
        """Take a double click of the left button."""
        if event.double() and event.button() == Qt.MouseButton.LeftButton:
            event.accept()
            self.fit_requested.emit()

    def set_theme(self, theme: Theme) -> None:
        """Colour the rectangle that is drawn while zooming."""
        self.rbScaleBox.setPen(pg.mkPen(theme.accent))
        colour = pg.mkColor(theme.accent)
        colour.setAlpha(theme.raw)
        self.rbScaleBox.setBrush(colour)
