"""Small charts of a device's figures over minutes or hours, with gaps where nothing is known."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QComboBox, QGridLayout, QWidget

from engine.system.units import GIB
from engine.telemetry.history import Array, DeviceHistory, Field
from engine.telemetry.snapshot import Snapshot
from gui.style.device_labels import device_labels
from gui.style.theme import theme_of
from gui.widgets.boxes import STRETCH, column_of, row_of
from gui.widgets.plain_text import Label

TEN_MINUTES, HOUR, SIX_HOURS = 600.0, 3600.0, 6 * 3600.0
"""Time spans that the user can choose, in seconds."""

_NO_POINTS = np.empty(0)
_CAPTION = 16
"""Height of the caption above a chart, in logical pixels."""


class _Figure(NamedTuple):
    """How a field of the snapshot is drawn."""

    field: Field
    title: str
    unit: str
    factor: float = 1.0
    top: float | None = None
    """The highest visible value; None: the highest value in the time span."""


_FIGURES = (
    _Figure("utilisation", "Utilisation", "%", top=100.0),
    _Figure("memory_used", "Memory", "GiB", 1 / GIB),
    _Figure("temperature", "Temperature", "°C"),
    _Figure("power", "Power", "W"),
    _Figure("clock", "Clock", "MHz"),
)


class DeviceCharts(QWidget):
    """Keeps the history of every device, and draws that of the watched one."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._histories: dict[str, DeviceHistory] = {}
        self._colours: dict[str, int] = {}
        self._watched = ""
        self.span = QComboBox()
        self.span.addItem("10 minutes", TEN_MINUTES)
        self.span.addItem("1 hour", HOUR)
        self.span.addItem("6 hours", SIX_HOURS)
        self.span.setAccessibleName("Time span")
        self.span.currentTextChanged.connect(self._draw)
        heading = Label("THE LAST", objectName="h")
        top = row_of(heading, self.span, STRETCH)
        self.charts = {figure.field: Chart(figure, self) for figure in _FIGURES}
        self._grid = QGridLayout()
        self._grid.setSpacing(10)
        column_of(top, self._grid, parent=self, margins=0)
        self._shown: list[Chart] = []
        self._grid.setColumnStretch(0, 1)
        self._grid.setColumnStretch(1, 1)

    def add_snapshot(self, snapshot: Snapshot) -> None:
        """Add the figures of every device to its history."""
        self._colours |= {id: each.colour_index for id, each in device_labels(snapshot).items()}
        for device in snapshot.devices:
            self._histories.setdefault(device.id, DeviceHistory()).add(snapshot.time, device)
        if self.isVisible():
            self._draw()

    def watch(self, id: str) -> None:
        """Draw the device `id` from now on."""
        self._watched = id
        self._draw()

    def _draw(self) -> None:
        history = self._histories.get(self._watched)
        if history is None:
            return
        seconds = self.span.currentData()
        for field, chart in self.charts.items():
            chart.show_curve(*history.recent(field, seconds), seconds, self._colours[self._watched])
        self._place_charts([chart for chart in self.charts.values() if not chart.isHidden()])

    def _place_charts(self, shown: list[Chart]) -> None:
        """Place two charts per line; with an odd number, the last chart has its own line."""
        if shown == self._shown:
            return
        self._shown = shown
        for number, chart in enumerate(shown):
            is_alone = number == len(shown) - 1 and number % 2 == 0
            self._grid.addWidget(chart, number // 2, number % 2, 1, 2 if is_alone else 1)


class Chart(QWidget):
    """One figure over time; hidden while no value is known."""

    def __init__(self, figure: _Figure, parent: QWidget) -> None:
        super().__init__(parent)
        self._figure = figure
        self._times = self._values = _NO_POINTS
        self._seconds = 1.0
        self._colour_index = 0
        self.setMinimumHeight(64)
        self.hide()

    def sizeHint(self) -> QSize:
        """The size of a curve below its caption."""
        return QSize(240, 72)

    def show_curve(self, times: Array, values: Array, seconds: float, colour_index: int) -> None:
        """Draw `values` over `times` (seconds), float64 of shape (n,), the newest at the right end
        of a span of `seconds`; NaN is a gap.

        The colour is `Theme.curve(colour_index)`.
        """
        self._times, self._values = times, values * self._figure.factor
        self._seconds, self._colour_index = seconds, colour_index
        self.setVisible(bool(np.isfinite(values).any()))
        self.setAccessibleName(self.caption)
        self.update()

    @property
    def caption(self) -> str:
        """Title, newest and highest value, such as `Power 612 W, at most 640 W`."""
        if not np.isfinite(self._values).any():
            return self._figure.title
        newest, unit = self._values[-1], self._figure.unit
        now = f"{newest:.0f} {unit}" if np.isfinite(newest) else "n/a"
        most = f"{np.nanmax(self._values):.0f}"
        return f"{self._figure.title} {now}, at most {most} {unit}"

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the caption, and below it the curve on a scale from 0."""
        theme = theme_of(self.palette())
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        font = painter.font()
        font.setPixelSize(11)
        painter.setFont(font)
        painter.setPen(QColor(theme.muted))
        painter.drawText(0, 0, self.width(), _CAPTION, Qt.AlignmentFlag.AlignLeft, self.caption)
        area = QRectF(0, _CAPTION, self.width(), self.height() - _CAPTION - 1)
        painter.setPen(QPen(QColor(theme.line), 1))
        painter.drawLine(area.bottomLeft(), area.bottomRight())
        painter.setPen(QPen(QColor(theme.curve(self._colour_index)), 1.5))
        for piece in self._pieces(area):
            painter.drawPolyline(piece)
        painter.end()

    def _pieces(self, area: QRectF) -> list[QPolygonF]:
        """Return the parts of the curve between its gaps."""
        known = np.isfinite(self._values)
        if not known.any():
            return []
        top = self._figure.top or max(float(np.nanmax(self._values)), 1.0)
        left = area.right() - (self._times[-1] - self._times) * area.width() / self._seconds
        height = area.bottom() - np.clip(self._values / top, 0, 1) * (area.height() - 2)
        edges = np.flatnonzero(np.diff(np.concatenate(([False], known, [False]))))
        return [
            QPolygonF([QPointF(x, y) for x, y in zip(left[a:b], height[a:b], strict=True)])
            for a, b in edges.reshape(-1, 2)
        ]
