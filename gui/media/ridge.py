"""Draws the histograms of a series over its steps, one behind the other, the newest in front."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from gui.media.series import Histogram
from gui.style.theme import theme_of

MOST_ROWS = 18
_RISE = 3.5
"""Height of the highest histogram, in distances between two rows."""

_AXIS = 14
"""Logical pixels for the numbers below."""


class Ridge(QWidget):
    """Evenly chosen histograms, and the selected one in the accent colour."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._rows: list[Histogram] = []
        self._selected: Histogram | None = None
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)

    def sizeHint(self) -> QSize:
        """A card's width."""
        return QSize(200, 130)

    def show_histograms(self, histograms: Sequence[Histogram], selected: int) -> None:
        """Draw `histograms`, of which the one with index `selected` is highlighted."""
        self._rows = evenly(histograms, MOST_ROWS, selected)
        self._selected = histograms[selected] if histograms else None
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint from the oldest row, at the back, to the newest."""
        if not self._rows:
            return
        theme = theme_of(self.palette())
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        least = min(each.edges[0] for each in self._rows)
        most = max(each.edges[-1] for each in self._rows)
        area = QRectF(self.rect()).adjusted(4, 4, -4, -_AXIS)
        distance = area.height() / (len(self._rows) - 1 + _RISE)
        peak = max(map(_peak, self._rows)) or 1.0
        fill = QColor(theme.card2)
        fill.setAlpha(225)
        for place, histogram in enumerate(self._rows):
            base = area.bottom() - (len(self._rows) - 1 - place) * distance
            is_selected = histogram is self._selected
            ink = QColor(theme.accent if is_selected else theme.curve(0))
            if not is_selected:
                ink.setAlpha(70 + 110 * (place + 1) // len(self._rows))
            painter.setPen(QPen(ink, 2.0 if is_selected else 1.0))
            painter.setBrush(fill)
            outline = _outline(histogram, area, base, _RISE * distance / peak, least, most)
            painter.drawPolygon(outline)
        font = self.font()
        font.setPixelSize(10)
        painter.setFont(font)
        painter.setPen(QColor(theme.muted))
        axis = QRectF(area.left(), area.bottom(), area.width(), _AXIS)
        painter.drawText(
            axis, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom, f"{least:.3g}"
        )
        painter.drawText(
            axis, Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignBottom, f"{most:.3g}"
        )


def evenly(histograms: Sequence[Histogram], most: int, selected: int) -> list[Histogram]:
    """Return at most `most` of `histograms`, with the newest and the selected one."""
    last = len(histograms) - 1
    if last < most:
        return list(histograms)
    places = {round(number * last / (most - 1)) for number in range(most)}
    if selected not in places:
        nearest = min(places - {last}, key=lambda place: abs(place - selected))
        places = places - {nearest} | {selected}
    return [histograms[place] for place in sorted(places)]


def _peak(histogram: Histogram) -> float:
    return max(_densities(histogram))


def _densities(histogram: Histogram) -> list[float]:
    """Return the share of the values per width of a bin, so that unequal bins can be compared."""
    total = histogram.total or 1.0
    return [
        count / total / (right - left) if right > left else 0.0
        for count, left, right in zip(
            histogram.counts, histogram.edges, histogram.edges[1:], strict=False
        )
    ]


def _outline(
    histogram: Histogram, area: QRectF, base: float, scale: float, least: float, most: float
) -> QPolygonF:
    """Return the closed outline of a histogram that stands on the height `base`."""
    span = most - least

    def x(value: float) -> float:
        return area.left() + (value - least) / span * area.width()

    points = [QPointF(x(histogram.edges[0]), base)]
    for density, left, right in zip(
        _densities(histogram), histogram.edges, histogram.edges[1:], strict=False
    ):
        points.append(QPointF(x((left + right) / 2), base - density * scale))
    points.append(QPointF(x(histogram.edges[-1]), base))
    return QPolygonF(points)
