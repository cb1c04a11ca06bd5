"""The axes of a plot: few round ticks, short labels that differ, and the name of the horizontal
axis."""

from __future__ import annotations

import math
from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QPointF, QRectF, Qt, QTimer, Signal
from PySide6.QtGui import QFont, QFontMetricsF, QPainter, QPen
from shiboken6 import isValid

from engine.drawing import ticks, time_ticks
from engine.drawing.ticks import Labels
from gui.plots.data.x_axis import XKind, axis_title
from gui.style.theme import Theme

_TICK_HEIGHT = 26
"""Least distance of two labels of a vertical axis, in logical pixels."""

_LEAST_TICKS = 4
"""An axis of numbers has room for so many labels, however small the plot is, unless they are
long."""

_TIME_TICK_WIDTH = 80
"""Width of a time label, which has neighbours to the left and right, in logical pixels."""

_NUMBER_WIDTH = 70
"""The same for a short number. Each label takes time in each frame."""

_LABEL_GAP, _LEAST_GAP = 16, 5
"""Usual and least space between two labels of a horizontal axis, in logical pixels."""

AXIS_WIDTH = 42
"""Width of a vertical axis (logical pixels) as long as its labels fit, so that plots above each
other align."""

_LABEL_MARGIN = 10
"""Logical pixels between a label and both ends of a vertical axis."""

_STANDS_OUT = 20
"""Logical pixels beyond its left end in which a horizontal axis may write: half a label."""

_LABEL_HEIGHT = 0.8
"""What the characters need of the height of a line."""

_KNOWN_WIDTHS = 1000
"""Measuring a label takes longer than remembering it."""

_BESIDE_AREA = 1.0
"""Logical pixels between the line of an axis and the end of its space."""

_GRID_FADES = 0.05
"""Grid lines closer together than 20 logical pixels become pale."""

_ROUNDING = 1e-6
"""What counts as no difference between two places, in logical pixels."""

_BESIDE = (
    Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
).value | Qt.TextFlag.TextDontClip.value
_BELOW = (
    Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignTop
).value | Qt.TextFlag.TextDontClip.value

_Line = tuple[QPen, QPointF, QPointF]
"""Pen, start and end."""

_Text = tuple[QRectF, int, str]
"""Place, flags and text of a label."""

_Drawing = tuple[_Line, list[_Line], list[_Text]]


class Axis(pg.AxisItem):  # type: ignore[misc]  # pyqtgraph has no types
    """An axis with few, short tick labels. In log mode, positions are log10 of the values."""

    offset_changed = Signal(str)
    """The number to which each label of a vertical axis is added; empty: the labels are the
    values."""

    kind = XKind.STEP
    """What a horizontal axis shows."""

    offset = ""
    """See `offset_changed`."""

    _labelled: tuple[tuple[float, ...], Labels] = (), Labels([])
    """The ticks that were labelled last (and whether they are logarithms), and their labels."""

    _measured: tuple[QFont, QFontMetricsF, dict[str, float]] | None = None
    """The font, and the widths of texts in it."""

    picture: Any = None
    """What to draw, a `_Drawing`; None, also set by pyqtgraph: to be computed again."""

    _to_fit: Labels | None = None
    _fitting: QTimer | None = None
    """One timer for all paintings: a call with a function for each of them crashed Qt."""

    def set_kind(self, kind: XKind) -> None:
        """Label seconds as durations or as times of day, everything else as numbers."""
        self.kind = kind
        self.picture = None  # the cached drawing of pyqtgraph
        self.update()

    def tickValues(self, low: float, high: float, size: float) -> Any:
        """Return tick positions at round numbers; on a time axis, at round times."""
        if not high > low:
            return []
        if self.kind.is_time:
            every = time_ticks.spacing(high - low, int(size / _TIME_TICK_WIDTH))
            return [(every, time_ticks.ticks(low, high, every, wall=self.kind is XKind.WALL))]
        choose = ticks.logarithmic if self.logMode else ticks.linear
        if self.orientation == "left":
            return [(None, choose(low, high, max(int(size / _TICK_HEIGHT), _LEAST_TICKS)))]
        found = choose(low, high, max(int(size / _NUMBER_WIDTH), _LEAST_TICKS))
        widest = self._widest(self._labels(found).texts) + _LABEL_GAP
        if widest * len(found) > size:
            found = choose(low, high, int(size / widest))
        return [(None, found)]

    def tickStrings(self, values: list[float], scale: float, spacing: float | None) -> list[str]:
        """Return the label of each tick."""
        if self.orientation == "left":
            # pyqtgraph calls this while it paints; the layout must not change then.
            self._to_fit = self._labels(values)
            if self._fitting is None:
                self._fitting = QTimer()
                self._fitting.setSingleShot(True)
                self._fitting.timeout.connect(self._fit_later)
            self._fitting.start(0)
        return self._texts(values, spacing)

    def labelled(self, low: float, high: float, size: float) -> tuple[list[tuple[float, str]], str]:
        """Return position and label of each tick of an axis of `size` logical pixels, and its
        offset."""
        ((spacing, values),) = self.tickValues(low, high, size)
        offset = "" if self.kind.is_time else self._labels(values).offset
        return list(zip(values, self._texts(values, spacing), strict=True)), offset

    def boundingRect(self) -> QRectF:
        """Its place, and what stands out of it: below a vertical axis there is nothing else."""
        rect: QRectF = super().boundingRect()
        return rect.adjusted(-_STANDS_OUT, 0, 0, 0) if self.orientation == "bottom" else rect

    def paint(self, painter: QPainter, *_: Any) -> None:
        """Draw what was computed for this range and size. A recorded picture, as pyqtgraph keeps
        it, takes longer."""
        if self.picture is None:
            self.picture = self.generateDrawSpecs(painter)
        if self.picture is not None:
            painter.save()
            self.drawPicture(painter, *self.picture)
            painter.restore()

    def drawPicture(
        self, painter: QPainter, line: _Line, marks: list[_Line], texts: list[_Text]
    ) -> None:
        """Draw the line of the axis, the grid and the labels."""
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        pen, start, end = line
        painter.setPen(pen)
        painter.drawLine(start, end)
        if marks:
            self._draw_grid(painter, marks)
        painter.setClipRect(self.boundingRect().toAlignedRect(), Qt.ClipOperation.IntersectClip)
        painter.setFont(self._font())
        painter.setPen(self.textPen())
        for place, flags, text in texts:
            painter.drawText(place, flags, text)

    def _draw_grid(self, painter: QPainter, marks: list[_Line]) -> None:
        """Fill one row of device pixels for each mark: a transparent line takes 70 times longer."""
        to_screen = painter.deviceTransform()
        back, _ = to_screen.inverted()
        for pen, end, start in marks:
            left, right = to_screen.map(start), to_screen.map(end)
            row = QRectF(left.x(), math.floor(left.y()), right.x() - left.x(), 1.0)
            painter.fillRect(back.mapRect(row), pen.color())

    def generateDrawSpecs(self, painter: QPainter) -> _Drawing | None:
        """Return what to draw: the line of the axis, the grid of a vertical axis, and the labels,
        with the name of a horizontal axis at its right end. None: there is no room.

        pyqtgraph's own function does this for every kind of axis. It took longer than the curves.
        """
        bounds = self.mapRectFromParent(self.geometry())
        low, high = self.range
        if not (high > low and bounds.width() > 0 and bounds.height() > 0):
            return None
        if self.orientation == "left":
            return self._vertical(bounds, low, high)
        return self._horizontal(bounds, low, high)

    def _vertical(self, bounds: QRectF, low: float, high: float) -> _Drawing:
        right, height = bounds.right(), bounds.height()
        edge = right - _BESIDE_AREA
        line = self.pen(), QPointF(edge, bounds.top() - 1), QPointF(edge, bounds.bottom() + 1)
        values, texts = self._ticks(low, high, height + 2)
        area = self.linkedView()
        far = area.mapRectToItem(self, area.boundingRect()).right()
        pen = QPen(self.tickPen())
        colour = pen.color()
        colour.setAlpha(int(self.grid * min(1.0, _GRID_FADES * (height + 2) / (len(values) + 1))))
        pen.setColor(colour)
        whole = self.boundingRect()
        end = right - self.style["tickTextOffset"][0]
        label_height = self._label_height()
        marks: list[_Line] = []
        shown: list[_Text] = []
        for value, text in zip(values, texts, strict=True):
            y = bounds.top() + (high - value) / (high - low) * height
            if not bounds.top() - _ROUNDING <= y <= bounds.bottom() + _ROUNDING:
                continue
            marks.append((pen, QPointF(far, y), QPointF(right, y)))
            width = self._width(text)
            place = QRectF(end - width, y - label_height / 2, width, label_height)
            if _contains(whole, place):
                shown.append((place, _BESIDE, text))
        return line, marks, shown

    def _horizontal(self, bounds: QRectF, low: float, high: float) -> _Drawing:
        left, right = bounds.left(), bounds.right()
        edge = bounds.top() + _BESIDE_AREA
        line = self.pen(), QPointF(left - 1, edge), QPointF(right + 1, edge)
        top = bounds.top() + self.style["tickTextOffset"][1]
        name = axis_title(self.kind)
        width = self._width(name)
        place = QRectF(right - width, top, width, bounds.height())
        shown: list[_Text] = [(place, _BELOW, name)]
        free_from, free_to = self.boundingRect().left(), place.left() - _LEAST_GAP
        label_height = self._label_height()
        for value, text in zip(*self._ticks(low, high, bounds.width() + 2), strict=True):
            width = self._width(text)
            start = left + (value - low) / (high - low) * bounds.width() - width / 2
            if free_from <= start and start + width <= free_to:
                shown.append((QRectF(start, top, width, label_height), _BELOW, text))
                free_from = start + width + _LEAST_GAP
        return line, [], shown

    def _ticks(self, low: float, high: float, size: float) -> tuple[list[float], list[str]]:
        """Return the positions of the ticks and their labels."""
        ((spacing, values),) = self.tickValues(low, high, size)
        return values, self.tickStrings(values, 1.0, spacing)

    def set_theme(self, theme: Theme) -> None:
        """Colour the labels, and the axis line (bottom axis) or the grid (left axis)."""
        self.setTextPen(theme.muted)
        horizontal = self.orientation == "bottom"
        self.setPen(pg.mkPen(theme.line) if horizontal else pg.mkPen(None))
        self.setTickPen(pg.mkPen(theme.muted))
        self.setGrid(False if horizontal else theme.grid)

    def _texts(self, values: list[float], spacing: float | None) -> list[str]:
        if self.kind.is_time and spacing:
            label = time_ticks.clock if self.kind is XKind.WALL else time_ticks.duration
            return [label(value, spacing) for value in values]
        return self._labels(values).texts

    def _labels(self, values: list[float]) -> Labels:
        key = (self.logMode, *values)
        if key != self._labelled[0]:
            shown = [10.0**value for value in values] if self.logMode else values
            found = ticks.labels(shown, may_have_offset=self.orientation == "left")
            self._labelled = key, found
        return self._labelled[1]

    def _fit_later(self) -> None:
        if self._to_fit is not None and isValid(self):
            self._fit(self._to_fit)

    def _fit(self, labels: Labels) -> None:
        """Make the axis wide enough for its labels: pyqtgraph leaves out a label that does not
        fit."""
        wanted = max(AXIS_WIDTH, math.ceil(self._widest(labels.texts)) + _LABEL_MARGIN)
        if wanted != self.fixedWidth:
            self.setWidth(wanted)
        if labels.offset != self.offset:
            self.offset = labels.offset
            self.offset_changed.emit(labels.offset)

    def _widest(self, labels: list[str]) -> float:
        return max(map(self._width, labels), default=0.0)

    def _width(self, text: str) -> float:
        _, metrics, known = self._measure()
        width = known.get(text)
        if width is None:
            if len(known) >= _KNOWN_WIDTHS:
                known.clear()
            width = known[text] = metrics.horizontalAdvance(text)
        return width

    def _label_height(self) -> float:
        return _LABEL_HEIGHT * self._measure()[1].height()

    def _measure(self) -> tuple[QFont, QFontMetricsF, dict[str, float]]:
        font = self._font()
        if self._measured is None or self._measured[0] is not font:
            self._measured = font, QFontMetricsF(font), {}
        return self._measured

    def _font(self) -> QFont:
        font: QFont = self.style["tickFont"] or self.font()
        return font


def _contains(whole: QRectF, part: QRectF) -> bool:
    return whole.adjusted(-_ROUNDING, -_ROUNDING, _ROUNDING, _ROUNDING).contains(part)
