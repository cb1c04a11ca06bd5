"""The axes of a plot, and the plot area with its mouse actions."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pyqtgraph as pg
from PySide6.QtCore import Qt, QTimer, Signal
from PySide6.QtGui import QFontMetricsF

from gui.plots.data.x_axis import XKind
from gui.plots.plot import time_ticks
from gui.style.theme import Theme

_LOG_SUBDIVISIONS = (1, 2, 5)
_TICK_HEIGHT = 20
"""Height of a tick label, in logical pixels."""

_TIME_TICK_WIDTH = 80
"""Width of a time label, which has neighbours to the left and right, in logical pixels."""

AXIS_WIDTH = 42
"""Width of a vertical axis (logical pixels) as long as its labels fit, so that plots above each
other align."""

_LABEL_MARGIN = 10
"""Logical pixels between a label and both ends of a vertical axis."""

_MAX_DIGITS = 12
"""Maximum digits of a tick label: further digits may be rounding errors of the logarithm."""


class Axis(pg.AxisItem):  # type: ignore[misc]  # pyqtgraph has no types
    """An axis with few, short tick labels. In log mode, positions are log10 of the values."""

    kind = XKind.STEP
    """What a horizontal axis shows."""

    def set_kind(self, kind: XKind) -> None:
        """Label seconds as durations or as times of day, everything else as numbers."""
        self.kind = kind
        self.picture = None  # the cached drawing of pyqtgraph
        self.update()

    def tickValues(self, low: float, high: float, size: float) -> Any:
        """Return tick positions at round numbers; on a time axis, at round times."""
        if not self.kind.is_time or high <= low:
            return super().tickValues(low, high, size)
        every = time_ticks.spacing(high - low, int(size / _TIME_TICK_WIDTH))
        return [(every, time_ticks.ticks(low, high, every, wall=self.kind is XKind.WALL))]

    def tickStrings(self, values: list[float], scale: float, spacing: float | None) -> list[str]:
        """Return the label of each tick."""
        if self.kind.is_time and spacing:
            label = time_ticks.clock if self.kind is XKind.WALL else time_ticks.duration
            return [label(value, spacing) for value in values]
        shown = [10.0**value if self.logMode else value for value in values]
        nearest = min((abs(b - a) for a, b in pairwise(shown)), default=0.0)
        labels = [short_number(value, nearest) for value in shown]
        if self.orientation == "left":
            # pyqtgraph calls this while it paints; the layout must not change then.
            QTimer.singleShot(0, self, lambda: self._fit_width(labels))
        return labels

    def _fit_width(self, labels: list[str]) -> None:
        """Make the axis wide enough for its labels: pyqtgraph leaves out a label that does not
        fit."""
        metrics = QFontMetricsF(self.style["tickFont"] or self.font())
        widest = max(map(metrics.horizontalAdvance, labels), default=0.0)
        wanted = max(AXIS_WIDTH, math.ceil(widest) + _LABEL_MARGIN)
        if wanted != self.fixedWidth:
            self.setWidth(wanted)

    def logTickValues(
        self, low: float, high: float, size: float, ticks: list[tuple[float, list[float]]]
    ) -> list[tuple[float | None, list[float]]]:
        """Return ticks at 1, 2 and 5 in every decade; with many decades, at every few decades."""
        every = max(1, math.ceil((high - low) * _TICK_HEIGHT / max(size, 1)))
        decades = range(math.floor(low) // every * every, math.ceil(high) + 1, every)
        steps = _LOG_SUBDIVISIONS if high - low < 1.5 else (1,)
        if high - low < 0.3:  # less than a factor of 2: ticks as on a linear axis
            return [(None, [math.log10(value) for value in _round_between(10**low, 10**high)])]
        marks = [decade + math.log10(step) for decade in decades for step in steps]
        return [(None, [mark for mark in marks if low <= mark <= high])]

    def set_theme(self, theme: Theme) -> None:
        """Colour the labels, and the axis line (bottom axis) or the grid (left axis)."""
        self.setTextPen(theme.muted)
        horizontal = self.orientation == "bottom"
        self.setPen(pg.mkPen(theme.line) if horizontal else pg.mkPen(None))
        self.setTickPen(pg.mkPen(theme.muted))
        self.setGrid(False if horizontal else theme.grid)


def short_number(value: float, spacing: float = 0.0) -> str:
    """Format `value` as `0.25`, `40`, `2k`, `1.5M` or `2.5e-5`. If `spacing` is not 0, use enough
    digits to distinguish the value from one that is `spacing` away."""
    size = abs(value)
    if size <= max(1e-15, 1e-6 * spacing):  # 0 with rounding errors from adding up the ticks
        return "0"
    digits = _digits(size, spacing)
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if 1e12 > size >= limit:
            return f"{value / limit:.{max(digits, 6)}g}{unit}"
    if size < 1e-3 or size >= 1e12:
        mantissa, _, exponent = f"{value:.{max(digits, 3) - 1}e}".partition("e")
        return f"{float(mantissa):.{max(digits, 3)}g}e{int(exponent)}"
    return f"{value:.{max(digits, 4)}g}"


def _digits(size: float, spacing: float) -> int:
    """Return the number of digits of `size` up to the digit that changes from tick to tick."""
    if spacing <= 0:
        return 0
    # A computed spacing of 0.00099999 means 0.001.
    changed = math.floor(math.log10(spacing) + 1e-6)
    return min(math.floor(math.log10(size)) - changed + 1, _MAX_DIGITS)


def _round_between(low: float, high: float) -> list[float]:
    step = 10.0 ** math.floor(math.log10(max(high - low, 1e-300)))
    return [float(value) for value in np.arange(math.ceil(low / step), high / step) * step]


class PlotArea(pg.ViewBox):  # type: ignore[misc]  # pyqtgraph has no types
    """A drag zooms into a rectangle, a drag with the middle button pans, a double click shows
    all."""

    fit_requested = Signal()

    def __init__(self) -> None:
        super().__init__(enableMenu=False, defaultPadding=0.0)
        self.disableAutoRange()
        self.setMouseMode(self.RectMode)

    def mouseDragEvent(self, event: Any, axis: int | None = None) -> None:
        """Zoom into the rectangle, or pan with the middle button."""
        panning = event.button() == Qt.MouseButton.MiddleButton
        self.setMouseMode(self.PanMode if panning else self.RectMode)
        super().mouseDragEvent(event, axis)

    def mouseClickEvent(self, event: Any) -> None:
        """Request to show all points on a double click of the left button."""
        if event.double() and event.button() == Qt.MouseButton.LeftButton:
            event.accept()
            self.fit_requested.emit()

    def set_theme(self, theme: Theme) -> None:
        """Colour the zoom rectangle."""
        self.rbScaleBox.setPen(pg.mkPen(theme.accent))
        colour = pg.mkColor(theme.accent)
        colour.setAlpha(theme.raw)
        self.rbScaleBox.setBrush(colour)
