"""Draws the cells of the table: the box of a run, its state, bars, small curves and tags."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from PySide6.QtCore import QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QPolygonF
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QTableView

from engine.runs.run_info import RunInfo
from engine.runs.table.cell_text import NOTHING
from engine.runs.table.columns import Column, number_of
from gui.runs_table.arrangement import GroupRow, is_curve
from gui.runs_table.cell_texts import group_text, group_title, is_best_shown, run_text, text_of
from gui.runs_table.table_model import RunsTableModel, alignment
from gui.style.state_marks import draw_state
from gui.style.state_style import is_hung, marked_state, state_colour, state_name, state_text
from gui.style.theme import Theme
from gui.widgets.cell_painting import BOX, draw_bar, draw_box, draw_text, set_font
from gui.widgets.table import LEFT, Index

ROW_HEIGHT = 25
BOX_LEFT = 9
"""Logical pixels beside the box."""

_TEXT_LEFT = 34
_PAD = 6
_BAR = 5
_VALUE_WIDTH = 52
_EDGE = 3
_TINT = 42
_SMALL = 11

SmallCurve = Sequence[float]


class CellDelegate(QStyledItemDelegate):
    """Paints every cell itself: the style sheet of a table costs several times as much."""

    def __init__(
        self,
        model: RunsTableModel,
        curve: Callable[[RunInfo, str], SmallCurve | None],
        theme: Theme,
    ) -> None:
        """`curve` returns the small curve of a run's metric; None: it is not known yet."""
        super().__init__()
        self.theme = theme
        self._model = model
        self._curve = curve
        self._lines: dict[tuple[str, str], tuple[SmallCurve, tuple[int, int], QPolygonF]] = {}
        self._tints: dict[tuple[str, int], QColor] = {}

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """All rows have the same height."""
        return QSize(80, ROW_HEIGHT)

    def editorEvent(self, *arguments: object) -> bool:
        """The view handles clicks on boxes."""
        return False

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Draw one cell."""
        theme = self.theme
        rect: QRect = option.rect
        row, column = self._model.rows[index.row()], self._model.columns[index.column()]
        state: QStyle.StateFlag = option.state
        is_current = bool(state & QStyle.StateFlag.State_Selected)
        if is_current:  # over the strong colour of the platform
            painter.fillRect(rect, QColor(theme.card))
        painter.save()
        painter.setClipRect(rect)
        if isinstance(row, GroupRow):
            title = self._room_of_title(option, index, row)
            self._draw_group(painter, rect, row, column, title, theme)
        else:
            self._draw_run(painter, rect, row, column, index.column() == 0, state, theme)
        painter.restore()
        if is_current:
            for y in (rect.top(), rect.bottom()):
                painter.fillRect(rect.left(), y, rect.width(), 1, QColor(theme.accent))

    def _draw_group(
        self,
        painter: QPainter,
        rect: QRect,
        row: GroupRow,
        column: Column,
        title: QRect | None,
        theme: Theme,
    ) -> None:
        """Draw the part of the `title` that lies in `rect`; None: draw what the group has there."""
        painter.fillRect(rect, QColor(theme.card2))
        if title is not None:
            set_font(painter, bold=True)
            painter.setPen(QColor(theme.text))
            sign = "▸" if row.is_folded else "▾"
            painter.drawText(title.adjusted(_PAD + 4, 0, 0, 0), LEFT, sign)
            draw_text(painter, title.adjusted(_PAD + 20, 0, -_PAD, 0), group_title(row))
            return
        painter.setPen(QColor(theme.muted))
        text, side = group_text(column, row), alignment(column)
        draw_text(painter, rect.adjusted(_PAD, 0, -_PAD, 0), text, side)

    def _room_of_title(
        self, option: QStyleOptionViewItem, index: Index, row: GroupRow
    ) -> QRect | None:
        """Return where the title of a group is drawn: the first column, and the second one if the
        group has nothing there. None: not in the column of `index`."""
        rect: QRect = option.rect
        columns, view = self._model.columns, option.widget
        if index.column() > 1 or not isinstance(view, QTableView):
            return None
        is_wide = len(columns) > 1 and not group_text(columns[1], row)
        if index.column() == 0:
            return rect.adjusted(0, 0, view.columnWidth(1) if is_wide else 0, 0)
        return rect.adjusted(-view.columnWidth(0), 0, 0, 0) if is_wide else None

    def _draw_run(
        self,
        painter: QPainter,
        rect: QRect,
        info: RunInfo,
        column: Column,
        is_first: bool,
        state: QStyle.StateFlag,
        theme: Theme,
    ) -> None:
        colour = self._model.chosen.get(info.id)
        if colour is not None:
            painter.fillRect(rect, self._tint(theme.curve(colour)))
        elif state & QStyle.StateFlag.State_MouseOver:
            painter.fillRect(rect, QColor(theme.card2))
        painter.fillRect(rect.left(), rect.bottom(), rect.width(), 1, QColor(theme.card2))
        painter.setPen(QColor(theme.text))
        text = rect.adjusted(_PAD, 0, -_PAD, 0)
        if is_first:
            if colour is not None:
                edge = QRect(rect.left(), rect.top(), _EDGE, rect.height() - 1)
                painter.fillRect(edge, QColor(theme.curve(colour)))
            middle = QPointF(rect.left() + BOX_LEFT + BOX / 2, rect.center().y() + 0.5)
            draw_box(painter, middle, theme, colour)
            text = rect.adjusted(_TEXT_LEFT, 0, -_PAD, 0)
        if colour is not None and column.name == "name":
            set_font(painter, bold=True)
        if is_curve(column):
            ink = theme.muted if colour is None else theme.curve(colour)
            self._draw_curve(painter, text, info, column, ink)
        elif column.metric:
            self._draw_metric(painter, text, info, column, theme)
        elif column.name == "state":
            self._draw_state(painter, text, info, theme)
        elif column.name == "tags":
            self._draw_tags(painter, text, info.notes.tags, theme)
        else:
            # The names of a sweep differ at their ends.
            modes = Qt.TextElideMode
            mode = modes.ElideMiddle if column.name == "name" else modes.ElideRight
            draw_text(painter, text, text_of(column, info), alignment(column), mode)

    def _draw_state(self, painter: QPainter, rect: QRect, info: RunInfo, theme: Theme) -> None:
        ink = state_colour(info, theme)
        draw_state(painter, QPointF(rect.left(), rect.center().y() - 6), marked_state(info), ink)
        painter.setPen(QColor(ink))
        draw_text(
            painter,
            rect.adjusted(19, 0, 0, 0),
            state_text(info) if info.spec.is_imported or is_hung(info) else state_name(info.state),
        )

    def _draw_metric(
        self, painter: QPainter, rect: QRect, info: RunInfo, column: Column, theme: Theme
    ) -> None:
        """Draw a value and its place between the lowest and the highest shown one."""
        value = number_of(column.read(info))
        known = self._model.arranged.ranges.get(column.name)
        is_best = value is not None and is_best_shown(column, value, known)
        if is_best:
            set_font(painter, bold=True)
            painter.setPen(QColor(theme.warn))
        text = NOTHING if value is None else run_text(column, info)
        width = max(_VALUE_WIDTH, painter.fontMetrics().horizontalAdvance(text))
        room = rect.width() - width - _PAD - 2
        has_bar = known is not None and value is not None and math.isfinite(value)
        if not has_bar or room < 24 or known is None or value is None or known.least == known.most:
            draw_text(painter, rect, text)
            return
        draw_text(painter, QRect(rect.left(), rect.top(), width, rect.height()), text)
        share = (value - known.least) / (known.most - known.least)
        bar = QRectF(rect.left() + width + _PAD, rect.center().y() - _BAR / 2 + 0.5, room, _BAR)
        ink = theme.warn if is_best else theme.accent_bg
        draw_bar(painter, bar, QColor(theme.line), [(share, ink)], least=_BAR)

    def _draw_curve(
        self, painter: QPainter, rect: QRect, info: RunInfo, column: Column, ink: str
    ) -> None:
        values = self._curve(info, column.metric)
        if not values or len(values) < 2:
            return
        key, size = (info.id, column.metric), (rect.width() - 2, rect.height() - 10)
        known = self._lines.get(key)
        if known is None or known[0] is not values or known[1] != size:
            if len(self._lines) > _MOST_LINES:
                self._lines.clear()
            known = self._lines[key] = values, size, _line(values, *size)
        painter.translate(rect.left(), rect.top() + 5)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(ink), 1.3))
        painter.drawPolyline(known[2])

    def _draw_tags(self, painter: QPainter, rect: QRect, tags: Sequence[str], theme: Theme) -> None:
        if not tags:
            return
        set_font(painter, size=_SMALL)
        metrics = painter.fontMetrics()
        left = rect.left()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        for number, tag in enumerate(tags):
            room = rect.right() - left - 12
            if room < 14:
                return
            text = metrics.elidedText(tag, Qt.TextElideMode.ElideRight, room)
            if number and text != tag and len(text) < 3:
                return
            width = metrics.horizontalAdvance(text) + 12
            chip = QRectF(left, rect.center().y() - 8, width, 17)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(theme.line))
            painter.drawRoundedRect(chip, 5, 5)
            painter.setPen(QColor(theme.muted))
            painter.drawText(chip, Qt.AlignmentFlag.AlignCenter, text)
            left += width + 5

    def _tint(self, colour: str) -> QColor:
        if (colour, _TINT) not in self._tints:
            tint = QColor(colour)
            tint.setAlpha(_TINT)
            self._tints[colour, _TINT] = tint
        return self._tints[colour, _TINT]


_MOST_LINES = 2000


def _line(values: SmallCurve, width: float, height: float) -> QPolygonF:
    """Return a small curve in a rectangle at the origin."""
    low, high = min(values), max(values)
    scale = height / (high - low) if high > low else 0.0
    step = width / (len(values) - 1)
    return QPolygonF(
        [QPointF(step * place, (high - value) * scale) for place, value in enumerate(values)]
    )
