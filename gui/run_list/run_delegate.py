"""Draws a run in the list: state, two lines of text, tags, and the box that chooses it."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPen
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem

from gui.run_list.run_list_model import (
    COLOUR,
    COMPARABLE,
    DEPTH,
    DETAIL,
    ID,
    STATE,
    TAGS,
    TITLE_END,
)
from gui.style.state_marks import draw_state
from gui.style.theme import Theme
from gui.widgets.cell_painting import draw_box, draw_text, set_font
from gui.widgets.table import Index

ROW_HEIGHT = 38
_INDENT = 14
_DEEPEST = 4
"""Branches of branches are indented so often: the column is narrow."""

_BOTTOM = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom


def box_rect(row: QRect) -> QRect:
    """Return the area of a row's box, with a margin for the mouse."""
    return QRect(row.right() - 28, row.top(), 28, 24)


class RunDelegate(QStyledItemDelegate):
    """Draws a run; its box is empty, or filled with the run's colour in the comparison."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.theme = theme
        self.chosen: Mapping[str, int] = {}
        """Colour index of each chosen run."""

        self.baseline: str | None = None

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        """All rows have the same height, and the width of the list."""
        return QSize(100, ROW_HEIGHT)

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: Index,
    ) -> None:
        """Draw one row."""
        rect: QRect = option.rect
        state: QStyle.StateFlag = option.state
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if state & (QStyle.StateFlag.State_Selected | QStyle.StateFlag.State_MouseOver):
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(self.theme.card2))
            painter.drawRoundedRect(rect.adjusted(0, 1, -2, -1), 5, 5)
        if state & QStyle.StateFlag.State_Selected:  # the bar is visible where the greys look alike
            painter.setBrush(QColor(self.theme.accent))
            bar = QRectF(rect.left(), rect.top() + 9, 3, rect.height() - 18)
            painter.drawRoundedRect(bar, 1, 1)
        if state & QStyle.StateFlag.State_HasFocus:
            painter.setPen(QPen(QColor(self.theme.accent), 1))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(QRectF(rect).adjusted(0.5, 1.5, -2.5, -1.5), 5, 5)
        indent = _INDENT * min(index.data(DEPTH) or 0, _DEEPEST)
        if indent:
            self._draw_branch(painter, rect.left() + indent, rect.top())
        mark = QPointF(rect.left() + 5 + indent, rect.top() + 3)
        draw_state(painter, mark, index.data(STATE), index.data(COLOUR))
        if index.data(COMPARABLE):
            run_id, is_hovered = index.data(ID), state & QStyle.StateFlag.State_MouseOver
            is_strong = run_id in self.chosen or is_hovered
            painter.setOpacity(1.0 if is_strong else 0.7)  # contrast of 3:1 on the card
            middle, is_baseline = QPointF(box_rect(rect).center()), run_id == self.baseline
            draw_box(painter, middle, self.theme, self.chosen.get(run_id), dashed=is_baseline)
            painter.setOpacity(1.0)
        text = rect.adjusted(22 + indent, 2, -30, -3)
        painter.setPen(QColor(self.theme.text))
        _draw_title(painter, text, index.data(), index.data(TITLE_END))
        set_font(painter, size=11)
        text.setRight(rect.right() - 8)
        text = self._draw_tags(painter, text, index.data(TAGS) or ())
        painter.setPen(QColor(self.theme.muted))
        draw_text(painter, text, index.data(DETAIL), _BOTTOM)
        painter.restore()

    def _draw_branch(self, painter: QPainter, left: int, top: int) -> None:
        """Draw the angle that leads from the run above to its branch."""
        painter.setPen(QPen(QColor(self.theme.muted), 1))
        corner = QPointF(left - 5.5, top + 10.5)
        painter.drawPolyline([QPointF(corner.x(), top + 1.5), corner, corner + QPointF(7, 0)])

    def _draw_tags(self, painter: QPainter, rect: QRect, tags: tuple[str, ...]) -> QRect:
        """Draw the tags at the right end, on at most half of the width; return the remaining
        area."""
        if not tags:
            return rect
        metrics = QFontMetrics(painter.font())
        text = metrics.elidedText(
            ", ".join(tags), Qt.TextElideMode.ElideRight, int(rect.width() * 0.4)
        )
        width = metrics.horizontalAdvance(text) + 10
        label = QRect(rect.right() - width, rect.bottom() - 15, width, 16)
        painter.setPen(QPen(QColor(self.theme.line)))
        painter.setBrush(QColor(self.theme.card2))
        painter.drawRoundedRect(label, 4, 4)
        painter.setPen(QColor(self.theme.muted))
        painter.drawText(label, Qt.AlignmentFlag.AlignCenter, text)
        return rect.adjusted(0, 0, -width - 6, 0)


def _draw_title(painter: QPainter, rect: QRect, title: str, title_end: str) -> None:
    """Elide the name in the middle where it does not fit, never the number, which identifies the
    run: the names of a sweep differ at their ends."""
    metrics = QFontMetrics(painter.font())
    width = rect.width() - metrics.horizontalAdvance(title_end)
    name = metrics.elidedText(title.removesuffix(title_end), Qt.TextElideMode.ElideMiddle, width)
    painter.drawText(rect, Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignTop, name + title_end)
