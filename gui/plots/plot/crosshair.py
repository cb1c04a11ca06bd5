"""The vertical line that mouse and keys move, and its box with the values of the curves."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from textwrap import wrap
from typing import NamedTuple

import pyqtgraph as pg
from PySide6.QtCore import QPointF, Qt
from PySide6.QtWidgets import QLabel

from gui.plots.plot.sharp_line import SharpLine
from gui.style.theme import Theme
from gui.style.translation import translate

_GAP = 10
"""Logical pixels between the line and the box."""

_MAX_ROWS = 5
_MAX_READINGS = 10
"""If there are more values, the last row shows how many are left out: they would cover the
plot."""


_MAX_LINE_LENGTH = 44
"""Characters per line of the marker texts."""


class Reading(NamedTuple):
    """The value of one curve at the crosshair."""

    label: str
    colour: str
    value: str
    symbol: str
    """A dot, or the dash style of the curve as text."""


class Crosshair:
    """A line and a box in one plot; both are hidden until `show`."""

    def __init__(self, plot: pg.PlotWidget) -> None:
        self._plot = plot
        self._area = plot.getPlotItem().getViewBox()
        self._line = SharpLine(self._area)
        self.box = QLabel(plot)
        self.box.setObjectName("valuebox")
        self.box.setTextFormat(Qt.TextFormat.RichText)
        self.box.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self.box.hide()

    def set_theme(self, theme: Theme) -> None:
        """Colour the line."""
        self._line.set_colour(theme.muted)
        self._muted = theme.muted

    def hide(self) -> None:
        """Hide line and box."""
        self._line.hide_line()
        self.box.hide()

    def show(
        self, x: float, description: str, readings: Iterable[Reading], marked: str = ""
    ) -> None:
        """Show the line at `x`, described by `description`, with the values of the curves and the
        text of the markers there. Hide it if `x` is not visible."""
        (first, last), _ = self._area.viewRange()
        if not first <= x <= last:
            self.hide()
            return
        self._line.show_at(x)
        cells = [_cell(reading) for reading in readings]
        if len(cells) > _MAX_READINGS:
            rest = len(cells) - _MAX_READINGS + 1
            text = translate("Crosshair", "and {count} more").format(count=rest)
            cells[_MAX_READINGS - 1 :] = [
                f'<td colspan="2" style="color:{self._muted}">{escape(text)}</td>'
            ]
        self.box.setVisible(bool(cells or marked))
        if not (cells or marked):
            return
        columns = -(-len(cells) // _MAX_ROWS)
        rows = ("".join(cells[i : i + columns]) for i in range(0, len(cells), columns))
        table = "".join(f"<tr>{row}</tr>" for row in rows)
        head = f'<span style="color:{self._muted}">{escape(description)}</span>'
        lines = [part for line in marked.splitlines() for part in wrap(line, _MAX_LINE_LENGTH)]
        head += "".join(f"<br>{_unbroken(line)}" for line in lines)
        self.box.setText(f'{head}<table cellspacing="0">{table}</table>')
        self.box.adjustSize()
        left = self._plot.mapFromScene(self._area.mapViewToScene(QPointF(x, 0.0))).x()
        right = left + _GAP
        fits = right + self.box.width() <= self._plot.width()
        self.box.move(int(right if fits else max(0, left - _GAP - self.box.width())), 6)


def _unbroken(line: str) -> str:
    return escape(line).replace(" ", "&nbsp;")


def _cell(reading: Reading) -> str:
    dot = f'<span style="color:{reading.colour}">{reading.symbol}</span>'
    return (
        f"<td>{dot} {escape(reading.label)}&nbsp;&nbsp;</td>"
        f'<td align="right" style="font-weight:600">{escape(reading.value)}&nbsp;</td>'
    )
