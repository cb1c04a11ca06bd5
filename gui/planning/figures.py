"""Pictures of what a preflight has measured, with the numbers under them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QGuiApplication, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.system.units import byte_size
from gui.style.formatting import step_time
from gui.style.theme import theme_of
from gui.widgets.boxes import column_of
from gui.widgets.layouts.flow_layout import FlowLayout
from gui.widgets.plain_text import Label

_WIDTH, _HEIGHT = 330, 120
"""Logical pixels of one picture."""

_LEFT, _TOP, _BOTTOM = 52, 8, 18
_BAR = 26
_SMALL = 11


class Point(NamedTuple):
    """One measurement: its place, its value, and both in words."""

    x: float
    y: float
    place: str
    value: str


def bandwidths(figures: Mapping[str, float]) -> list[Point]:
    """Return the bandwidth of the all-reduce by size of the message, in bytes and GB/s."""
    found: dict[int, float] = {}
    for name, seconds in figures.items():
        match name.split("/"):
            case ["all_reduce", size] if size.isdecimal() and int(size) and seconds > 0:
                found[int(size)] = int(size) / seconds
    return [
        Point(math.log2(size), rate / 1e9, _bytes(size), f"{rate / 1e9:.3g}")
        for size, rate in sorted(found.items())
    ]


def loading_times(figures: Mapping[str, float]) -> list[Point]:
    """Return the seconds in which the slowest rank loads its part of a batch, by the number of
    loader workers."""
    found: dict[int, float] = {}
    own = int(figures.get("loading/own_workers", 0.0))  # what 0 stands for, if the recipe has some
    for name, seconds in figures.items():
        match name.split("/"):
            case ["rank", _, "loading", number] if number.isdecimal():
                workers = int(number) or own
                found[workers] = max(seconds, found.get(workers, 0.0))
    return [
        Point(number, seconds, str(number), step_time(seconds))
        for number, seconds in sorted(found.items())
    ]


class FigureCharts(QWidget):
    """Side by side where there is room; takes none without figures."""

    def __init__(self) -> None:
        super().__init__()
        self._flow = FlowLayout(self, gap=16)
        self.bandwidth = _Chart("All-reduce: GB/s by size of the message", is_line=True)
        self.loading = _Chart("Loading a batch, by number of loader workers")
        for chart in (self.bandwidth, self.loading):
            self._flow.addWidget(chart)
        self.show_figures({})

    def show_figures(self, figures: Mapping[str, float]) -> None:
        """Draw what there is of `figures`."""
        rates, times = bandwidths(figures), loading_times(figures)
        self.bandwidth.show_points(rates if len(rates) > 1 else [])
        step = figures.get("step_seconds", 0.0)
        text = f"a step: {step_time(step)}" if step else ""
        self.loading.show_points(times, step, text)
        self.setVisible(bool(len(rates) > 1 or times))
        self.updateGeometry()


class _Chart(QWidget):
    """A title, a picture, and its numbers."""

    def __init__(self, title: str, *, is_line: bool = False) -> None:
        super().__init__()
        heading = Label(title, objectName="note")
        self.picture = _Picture(title, is_line=is_line)
        self.numbers = Label(objectName="note", wordWrap=True)
        self.numbers.setFixedWidth(_WIDTH)
        column_of(heading, self.picture, self.numbers, parent=self, margins=(0, 6, 0, 0), spacing=3)

    def show_points(
        self, points: Sequence[Point], level: float = 0.0, level_text: str = ""
    ) -> None:
        """Draw `points`, and a level to compare them with, which `level_text` describes."""
        texts = [f"{point.place}: {point.value}" for point in points]
        self.numbers.setText(" · ".join([*texts, *filter(None, (level_text,))]))
        self.numbers.setMinimumHeight(max(0, self.numbers.heightForWidth(_WIDTH)))
        self.picture.show_points(points, level, self.numbers.text())
        self.setVisible(bool(points))


class _Picture(QWidget):
    """A curve, or bars."""

    def __init__(self, title: str, *, is_line: bool) -> None:
        super().__init__()
        self._title, self._is_line = title, is_line
        self._points: Sequence[Point] = ()
        self._level = 0.0
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(title)

    def show_points(self, points: Sequence[Point], level: float, text: str) -> None:
        """Draw `points`; `text` has the numbers."""
        self._points, self._level = points, level
        self.setAccessibleDescription(text)
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(_WIDTH, _HEIGHT)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw from 0 to the highest value."""
        if not self._points:
            return
        theme = theme_of(QGuiApplication.palette())
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        font = QFont(painter.font())
        font.setPixelSize(_SMALL)
        painter.setFont(font)
        area = QRectF(_LEFT, _TOP, self.width() - _LEFT - 8, self.height() - _TOP - _BOTTOM)
        top = max(*(point.y for point in self._points), self._level) or 1.0
        muted = QColor(theme.muted)
        for share in (0.0, 0.5, 1.0):
            y = area.bottom() - share * area.height()
            painter.setPen(QPen(QColor(theme.line), 1))
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
            painter.setPen(muted)
            value = f"{share * top:.3g}" if self._is_line else step_time(share * top)
            painter.drawText(QRectF(0, y - 8, _LEFT - 8, 16), _RIGHT, value if share else "0")
        places = [self._x(number, area) for number in range(len(self._points))]
        heights = [area.bottom() - point.y / top * area.height() for point in self._points]
        if self._is_line:
            painter.setPen(QPen(QColor(theme.curve(0)), 1.5))
            corners = [QPointF(x, y) for x, y in zip(places, heights, strict=True)]
            painter.drawPolyline(QPolygonF(corners))
            painter.setBrush(QColor(theme.curve(0)))
            for corner in corners:
                painter.drawEllipse(corner, 2.5, 2.5)
        else:
            painter.setPen(Qt.PenStyle.NoPen)
            for x, y in zip(places, heights, strict=True):
                painter.setBrush(QColor(theme.curve(4)))
                painter.drawRect(QRectF(x - _BAR / 2, y, _BAR, area.bottom() - y))
        if self._level:
            y = area.bottom() - self._level / top * area.height()
            painter.setPen(QPen(QColor(theme.accent), 1.5, Qt.PenStyle.DashLine))
            painter.drawLine(QPointF(area.left(), y), QPointF(area.right(), y))
        painter.setPen(muted)
        end = -math.inf
        for x, point in zip(places, self._points, strict=True):
            width = painter.fontMetrics().horizontalAdvance(point.place)
            left = min(max(x - width / 2, area.left() - 10), self.width() - width)
            if left > end + 8:  # a label without room is in the numbers below
                painter.drawText(QPointF(left, self.height() - 4), point.place)
                end = left + width
        painter.end()

    def _x(self, number: int, area: QRectF) -> float:
        if not self._is_line:
            return area.left() + (number + 0.5) * area.width() / len(self._points)
        first, last = self._points[0].x, self._points[-1].x
        span = (last - first) or 1.0
        return area.left() + 6 + (self._points[number].x - first) / span * (area.width() - 12)


def _bytes(size: int) -> str:
    return byte_size(size).replace(".0 ", " ")


_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
