"""Dash styles distinguish curves of the same colour, on the canvas and in the legend."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import QPointF, QSize, Qt
from PySide6.QtGui import QColor, QIcon, QPainter, QPen, QPixmap

from gui.style.state_style import PIXEL_RATIO, switch_icon
from gui.style.theme import Theme


class DashStyle(NamedTuple):
    """How a line is interrupted."""

    pattern: tuple[float, ...]
    """Lengths of dashes and gaps in turn, in line widths; empty: a solid line. Both ends of a dash
    are drawn half a line width longer."""

    symbol: str
    """The dash style as text, such as `– –`."""


SOLID = DashStyle((), "●")
DASH_STYLES = (
    SOLID,
    DashStyle((4.0, 3.0), "– –"),
    DashStyle((0.5, 3.0), "···"),
    DashStyle((4.0, 3.0, 0.5, 3.0), "– ·"),
    DashStyle((9.0, 3.0), "—"),
    DashStyle((0.5, 3.0, 0.5, 3.0, 4.0, 3.0), "·· –"),
)
"""The colours repeat, each time with the next dash style: enough for three curves of each of 16
ranks."""

DASHED = DASH_STYLES[1]

DOT_SIZE = QSize(8, 8)
_SAMPLE_SIZE = QSize(18, 8)
_UNIT = 1.5
"""Line width (logical pixels) for which the samples draw the patterns."""

_ON, _OFF = 4.0, 1.0
"""Thickness of the sample of a visible and of a hidden curve, in logical pixels."""


def dash_style_of(index: int, theme: Theme) -> DashStyle:
    """Return the dash style of the curve or device number `index`: it changes where the colours of
    `theme` repeat."""
    return DASH_STYLES[index // len(theme.cycle) % len(DASH_STYLES)]


def legend_icon(colour: str, dash: DashStyle) -> QIcon:
    """Return the icon of a legend entry: a dot or a ring, or a thick or thin dashed line."""
    if not dash.pattern:
        return switch_icon(colour)
    icon = QIcon()
    for thickness, state in ((_ON, QIcon.State.On), (_OFF, QIcon.State.Off)):
        icon.addPixmap(_sample(colour, dash, thickness), QIcon.Mode.Normal, state)
    return icon


def icon_size(dash: DashStyle) -> QSize:
    """Return the size of a `legend_icon` in logical pixels."""
    return _SAMPLE_SIZE if dash.pattern else DOT_SIZE


def _sample(colour: str, dash: DashStyle, thickness: float) -> QPixmap:
    pixmap = QPixmap(_SAMPLE_SIZE * PIXEL_RATIO)
    pixmap.setDevicePixelRatio(PIXEL_RATIO)
    pixmap.fill(Qt.GlobalColor.transparent)
    pen = QPen(QColor(colour), thickness)
    pen.setCapStyle(Qt.PenCapStyle.FlatCap)
    # On the canvas both ends of a dash are half a line width longer.
    ends = [length + (1 if place % 2 == 0 else -1) for place, length in enumerate(dash.pattern)]
    pen.setDashPattern([length * _UNIT / thickness for length in ends])
    painter = QPainter(pixmap)
    painter.setPen(pen)
    middle = _SAMPLE_SIZE.height() / 2
    painter.drawLine(QPointF(0.0, middle), QPointF(_SAMPLE_SIZE.width(), middle))
    painter.end()
    return pixmap
