"""Draws the cells of a race: names, bars with their numbers, and why an entry has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QGuiApplication, QPainter
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from engine.planning.results import Entry
from engine.runs.run_state import RunState
from gui.planning import race_text
from gui.planning.race_columns import Column
from gui.style.state_marks import SIZE, draw_state
from gui.style.theme import Theme, theme_of
from gui.widgets.cell_painting import draw_bar, draw_text, set_font
from gui.widgets.table import BEST, LEFT, RIGHT, Index

if TYPE_CHECKING:
    from gui.planning.race_table import RaceModel

HEADER_HEIGHT = 28
ROW_HEIGHT = 36
_PAD = 8
_EDGE = 3
_BAR, _THIN = 18, 6
"""Logical pixels: the height of a bar of speed, and of the other bars."""

_NUMBER = 64
"""Room for the number beside a bar of speed."""

_MEMORY_NUMBER = 62
_FULL, _NEARLY_FULL = 0.95, 0.85
_GOOD, _FAIR = 0.85, 0.7
"""An efficiency from which on it is shown as good, and as neither good nor bad."""

SHARE_CURVES = {"compute": 0, "communication": 3, "data": 4}
"""The colours of the parts of a step, by curve: as in the plot of the step time."""

_CENTRE = Qt.AlignmentFlag.AlignCenter


class CellDelegate(QStyledItemDelegate):
    """Paints every cell itself; what it paints, the model says in words."""

    def __init__(self, model: RaceModel, parent: QWidget) -> None:
        super().__init__(parent)
        self._model = model

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(80, ROW_HEIGHT)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw one cell."""
        theme = theme_of(QGuiApplication.palette())
        rect: QRect = option.rect
        state: QStyle.StateFlag = option.state
        entry, column = self._model.rows[index.row()], Column(index.column())
        is_current = bool(state & QStyle.StateFlag.State_Selected)
        is_best = entry is race_text.winner(self._model.rows)
        painter.save()
        painter.setClipRect(rect)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if is_current:
            painter.fillRect(rect, QColor(theme.selected))
        elif state & QStyle.StateFlag.State_MouseOver:
            painter.fillRect(rect, QColor(theme.card2))
        painter.fillRect(rect.left(), rect.bottom(), rect.width(), 1, QColor(theme.line))
        inside = rect.adjusted(_PAD, 0, -_PAD, 0)
        match column:
            case Column.NAME:
                if is_current:
                    edge = QRect(rect.left(), rect.top(), _EDGE, rect.height() - 1)
                    painter.fillRect(edge, QColor(theme.accent))
                self._draw_name(painter, inside, entry, theme, is_best=is_best)
            case Column.RATE if entry.problem:
                _draw_problem(painter, inside, entry, theme)
            case Column.RATE:
                self._draw_rate(painter, inside, entry, theme, is_best=is_best)
            case Column.MEMORY:
                self._draw_memory(painter, inside, entry, theme)
            case Column.SHARES:
                _draw_shares(painter, inside, entry, theme)
            case Column.EFFICIENCY:
                text = self._model.text(entry, column)
                _draw_text(painter, inside, text, _efficiency_colour(entry, theme), RIGHT)
            case _:
                text = self._model.text(entry, column)
                _draw_text(painter, inside, text, theme.text, RIGHT)
        painter.restore()

    def _draw_name(
        self, painter: QPainter, rect: QRect, entry: Entry, theme: Theme, *, is_best: bool
    ) -> None:
        if is_best:
            star = QRect(rect.left() - 1, rect.top(), 16, rect.height())
            _draw_text(painter, star, BEST.strip(), theme.warn, _CENTRE, size=14)
        text = rect.adjusted(18, 0, 0, 0)
        second = race_text.second_line(entry, self._model.differing)
        if second:
            half = QRect(text.left(), text.top() + 3, text.width(), 17)
            below = QRect(text.left(), text.top() + 18, text.width(), 15)
            _draw_text(painter, below, second, theme.muted, size=11)
            text = half
        _draw_text(painter, text, race_text.title(entry), theme.text, bold=is_best)

    def _draw_rate(
        self, painter: QPainter, rect: QRect, entry: Entry, theme: Theme, *, is_best: bool
    ) -> None:
        most = self._model.fastest_rate
        share = (entry.samples_per_second or 0.0) / most if most else 0.0
        width = max(2.0, (rect.width() - _NUMBER) * share)
        bar = QRectF(rect.left(), rect.center().y() - _BAR / 2 + 0.5, width, _BAR)
        colour = QColor(theme.accent_bg)
        if not is_best:
            colour.setAlphaF(0.45)
        draw_bar(painter, bar, colour)
        number = QRect(round(bar.right()) + 8, rect.top(), _NUMBER, rect.height())
        _draw_text(painter, number, race_text.rate(entry), theme.text, bold=True)

    def _draw_memory(self, painter: QPainter, rect: QRect, entry: Entry, theme: Theme) -> None:
        used, total = race_text.fullest(entry, self._model.totals)
        text = race_text.memory(entry, self._model.totals)
        if total:
            share = min(1.0, used / total)
            width = rect.width() - _MEMORY_NUMBER - 8
            bar = QRectF(rect.left(), rect.center().y() - _THIN / 2 + 0.5, width, _THIN)
            colour = theme.bad if entry.problem or share > _FULL else theme.curve(2)
            colour = theme.warn if colour != theme.bad and share > _NEARLY_FULL else colour
            draw_bar(painter, bar, QColor(theme.line), [(share, colour)])
        _draw_text(painter, rect, text, theme.text, RIGHT)


def _draw_problem(painter: QPainter, rect: QRect, entry: Entry, theme: Theme) -> None:
    corner = QPointF(rect.left(), rect.center().y() - SIZE / 2 + 1)
    draw_state(painter, corner, RunState.FAILED, theme.bad)
    text = entry.problem.split("\n")[0]
    _draw_text(painter, rect.adjusted(SIZE + 6, 0, 0, 0), text, theme.bad)


def _draw_shares(painter: QPainter, rect: QRect, entry: Entry, theme: Theme) -> None:
    parts = [
        (entry.shares[name], theme.curve(SHARE_CURVES[name]))
        for name in race_text.SHARES
        if entry.shares.get(name)
    ]
    if not parts:
        _draw_text(painter, rect, race_text.NOTHING, theme.muted)
        return
    whole = max(1.0, sum(share for share, _ in parts))
    bar = QRectF(rect.left(), rect.center().y() - _THIN / 2 + 0.5, rect.width(), _THIN)
    shares = [(share / whole, colour) for share, colour in parts]
    draw_bar(painter, bar, QColor(theme.line), shares)


def _draw_text(
    painter: QPainter,
    rect: QRect,
    text: str,
    colour: str,
    side: Qt.AlignmentFlag = LEFT,
    *,
    bold: bool = False,
    size: int = 13,
) -> None:
    set_font(painter, bold=bold, size=size)
    painter.setPen(QColor(colour))
    draw_text(painter, rect, text, side)


def _efficiency_colour(entry: Entry, theme: Theme) -> str:
    if entry.efficiency is None:
        return theme.muted
    if entry.efficiency >= _GOOD:
        return theme.ok
    return theme.text if entry.efficiency >= _FAIR else theme.warn
