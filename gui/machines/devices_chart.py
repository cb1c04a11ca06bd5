"""A chart of one figure of all devices of a machine, over the last minutes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.telemetry.history import Array, DeviceHistory, Field
from gui.style.device_labels import DeviceLabel
from gui.style.theme import theme_of

SECONDS = 600.0
"""The time that is shown."""

_TOP, _BOTTOM, _LEFT = 42, 18, 34
"""Logical pixels around the curves: title and legend, times, values."""

_DOT = 7


class Curve(NamedTuple):
    """The curve of one device."""

    name: str
    colour_index: int
    times: Array
    """Seconds since the epoch, float64 of shape (n,)."""

    values: Array
    """In the unit of the chart, float64 of shape (n,); NaN: not known."""


class DevicesChart(QWidget):
    """Draws only what is in sight, from 0 to the highest value."""

    def __init__(
        self, field: Field, title: str, unit: str, *, factor: float = 1.0, top: float | None = None
    ) -> None:
        """`factor`: from the unit of the snapshot to `unit`. `top`: the highest value there is;
        None: what is shown decides."""
        super().__init__()
        self._field: Field = field
        self._title, self._unit, self._factor, self._highest = title, unit, factor, top
        self._curves: Sequence[Curve] = ()
        self.setMinimumSize(200, 150)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def sizeHint(self) -> QSize:
        """The size on a page of 1280 pixels."""
        return QSize(260, 190)

    def set_highest(self, value: float | None) -> None:
        """Set the highest value there is, in the unit of the chart; None: what is shown decides."""
        self._highest = value

    @property
    def curves(self) -> Sequence[Curve]:
        """What is drawn."""
        return self._curves

    def show_histories(
        self, histories: Mapping[str, DeviceHistory], labels: Mapping[str, DeviceLabel]
    ) -> None:
        """Draw the devices in `labels`, by id; one without a value has no curve."""
        curves = []
        for id, label in labels.items():
            times, values = histories[id].recent(self._field, SECONDS)
            if np.isfinite(values).any():
                name = label.name.removeprefix("GPU ")
                curves.append(Curve(name, label.colour_index, times, values * self._factor))
        self._curves = curves
        now = ", ".join(f"{each.name} {self._newest(each)}" for each in curves)
        self.setAccessibleName(f"{self._title}: {now}")
        if not self.visibleRegion().isEmpty():
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw title, legend, grid and curves."""
        theme = theme_of(self.palette())
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        font = painter.font()
        font.setBold(True)
        painter.setFont(font)
        painter.setPen(QColor(theme.text))
        painter.drawText(0, 0, self.width(), 18, Qt.AlignmentFlag.AlignLeft, self._title)
        width = painter.fontMetrics().horizontalAdvance(self._title)
        font.setBold(False)
        font.setPixelSize(11)
        painter.setFont(font)
        painter.setPen(QColor(theme.muted))
        painter.drawText(width + 8, 1, 80, 16, Qt.AlignmentFlag.AlignLeft, self._unit)
        self._draw_legend(painter)
        area = QRectF(_LEFT, _TOP, self.width() - _LEFT - 4, self.height() - _TOP - _BOTTOM)
        top = self._top()
        for share in (0.0, 0.5, 1.0):
            y = area.bottom() - share * area.height()
            painter.setPen(QPen(QColor(theme.line), 1))
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            painter.setPen(QColor(theme.muted))
            value = QRectF(0, y - 8, _LEFT - 6, 16)
            side = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
            painter.drawText(value, side, f"{share * top:.3g}")
        times = QRectF(area.left(), area.bottom() + 2, area.width(), _BOTTOM - 2)
        ago = f"{round(SECONDS / 60)} min ago"
        painter.drawText(times, Qt.AlignmentFlag.AlignLeft, ago)
        painter.drawText(times, Qt.AlignmentFlag.AlignRight, "now")
        end = max((each.times[-1] for each in self._curves), default=0.0)
        for each in self._curves:
            painter.setPen(QPen(QColor(theme.curve(each.colour_index)), 1.5))
            for piece in _pieces(each, area, end, top):
                painter.drawPolyline(piece)
        painter.end()

    def _draw_legend(self, painter: QPainter) -> None:
        """Draw the newest values, as many as fit."""
        theme = theme_of(self.palette())
        left, metrics = 0, painter.fontMetrics()
        for each in self._curves:
            text = f"{each.name} {self._newest(each)}"
            width = _DOT + 4 + metrics.horizontalAdvance(text)
            if left + width > self.width():
                return
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme.curve(each.colour_index)))
            painter.drawEllipse(QRectF(left, 26, _DOT, _DOT))
            painter.setPen(QColor(theme.text))
            painter.drawText(left + _DOT + 4, 34, text)
            left += width + 10

    def _newest(self, curve: Curve) -> str:
        newest = curve.values[-1]
        return f"{newest:.0f}" if np.isfinite(newest) else "n/a"

    def _top(self) -> float:
        if self._highest is not None:
            return self._highest
        return max((float(np.nanmax(each.values)) for each in self._curves), default=1.0) or 1.0


def _pieces(curve: Curve, area: QRectF, end: float, top: float) -> list[QPolygonF]:
    """Return the parts of a curve between its gaps."""
    known = np.isfinite(curve.values)
    across = area.right() - (end - curve.times) * area.width() / SECONDS
    up = area.bottom() - np.clip(curve.values / top, 0, 1) * area.height()
    edges = np.flatnonzero(np.diff(np.concatenate(([False], known, [False]))))
    return [
        QPolygonF([QPointF(x, y) for x, y in zip(across[a:b], up[a:b], strict=True)])
        for a, b in edges.reshape(-1, 2)
    ]
