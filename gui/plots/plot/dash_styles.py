"""What tells curves apart that have one colour: their dashes, on the canvas and in the legend."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import QPointF, QSize, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPen, QPixmap

from gui.style.state_style import SHARP, switch_icon
from gui.style.theme import Theme


class DashStyle(NamedTuple):
    """How a line is interrupted."""

    pattern: tuple[float, ...]
    """Lengths of dashes and gaps in turn, in widths of the line; empty: it goes through.
    Each end of a dash is drawn half a width longer."""

    sign: str
    """The same in a line of text."""


SOLID = DashStyle((), "●")
DASH_STYLES = (
    SOLID,
    DashStyle((4.0, 3.0), "– –"),
    DashStyle((0.5, 3.0), "···"),
    DashStyle((4.0, 3.0, 0.5, 3.0), "– ·"),
    DashStyle((9.0, 3.0), "—"),
    DashStyle((0.5, 3.0, 0.5, 3.0, 4.0, 3.0), "·· –"),
)
"""One for every time that the colours begin anew: enough for three curves of each of 16 ranks."""

DASHED = DASH_STYLES[1]

DOT_SIZE = QSize(8, 8)
_SAMPLE_SIZE = QSize(18, 8)
_UNIT = 1.5
"""Logical pixels of a line's width to which the patterns of the samples are drawn."""

_ON, _OFF = 4.0, 1.0
"""Logical pixels: thickness of a sample whose curve is seen, and of one that is hidden."""


def dash_style_of(index: int, theme: Theme) -> DashStyle:
    """The dash of the curve or device number `index`: the colours of `theme` come again."""
    return DASH_STYLES[index // len(theme.cycle) % len(DASH_STYLES)]


def legend_icon(colour: str, dash: DashStyle) -> QIcon:
    """For a chip: a dot or a ring, or a piece of the dashed line, thick or thin."""
    if not dash.pattern:
        return switch_icon(colour)
    found = QIcon()
    for thickness, state in ((_ON, QIcon.State.On), (_OFF, QIcon.State.Off)):
        found.addPixmap(_sample(colour, dash, thickness), QIcon.Mode.Normal, state)
    return found


def icon_size(dash: DashStyle) -> QSize:
    """Logical pixels of a `legend_icon`."""
    return _SAMPLE_SIZE if dash.pattern else DOT_SIZE


def _sample(colour: str, dash: DashStyle, thickness: float) -> QPixmap:
    pixmap = QPixmap(_SAMPLE_SIZE * SHARP)
    pixmap.setDevicePixelRatio(SHARP)
    pixmap.fill(Qt.GlobalColor.transparent)
    pen = QPen(QColor(colour), thickness)
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    # On the canvas the ends of a dash stand out by half the width of the line.
    ends = [length + (1 if place % 2 == 0 else -1) for place, length in enumerate(dash.pattern)]
    pen.setDashPattern([length * _UNIT / thickness for length in ends])
    painter = QPainter(pixmap)
    painter.setPen(pen)
    middle = _SAMPLE_SIZE.height() / 2
    painter.drawLine(QPointF(0.0, middle), QPointF(_SAMPLE_SIZE.width(), middle))
    painter.end()
    return pixmap
