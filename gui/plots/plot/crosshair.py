"""The vertical line that mouse or keys move, with the values that the curves have there."""

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

_MOST_ROWS = 5
_MOST_READINGS = 10
"""More would hide the plot: the last place says how many were left out."""


_MOST_LETTERS = 44
"""In a line of what is marked there."""


class Reading(NamedTuple):
    """What one curve has at the line."""

    label: str
    colour: str
    value: str
    sign: str
    """A dot in the colour, or the dashes of the line."""


class Crosshair:
    """A line and a box in one plot, both hidden until they are shown."""

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
        """Take line and box away."""
        self._line.leave()
        self.box.hide()

    def show(self, x: float, place: str, readings: Iterable[Reading], marked: str = "") -> None:
        """Stand at `x`, which is called `place`, and say what the curves have there and what is
        `marked`; nowhere, if that is not in sight."""
        (first, last), _ = self._area.viewRange()
        if not first <= x <= last:
            self.hide()
            return
        self._line.stand_at(x)
        cells = [_cell(reading) for reading in readings]
        if len(cells) > _MOST_READINGS:
            rest = len(cells) - _MOST_READINGS + 1
            text = translate("Crosshair", "and {count} more").format(count=rest)
            cells[_MOST_READINGS - 1 :] = [
                f'<td colspan="2" style="color:{self._muted}">{escape(text)}</td>'
            ]
        self.box.setVisible(bool(cells or marked))
        if not (cells or marked):
            return
        columns = -(-len(cells) // _MOST_ROWS)
        rows = ("".join(cells[i : i + columns]) for i in range(0, len(cells), columns))
        table = "".join(f"<tr>{row}</tr>" for row in rows)
        head = f'<span style="color:{self._muted}">{escape(place)}</span>'
        lines = [part for line in marked.splitlines() for part in wrap(line, _MOST_LETTERS)]
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
    dot = f'<span style="color:{reading.colour}">{reading.sign}</span>'
    return (
        f"<td>{dot} {escape(reading.label)}&nbsp;&nbsp;</td>"
        f'<td align="right" style="font-weight:600">{escape(reading.value)}&nbsp;</td>'
    )
