"""A table whose cells hold pieces of text in several colours; it is as high as its rows."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetrics,
    QGuiApplication,
    QPainter,
    QResizeEvent,
    QStandardItem,
    QStandardItemModel,
)
from PySide6.QtWidgets import QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from gui.style.theme import theme_of
from gui.widgets.plain_text import plain_tip
from gui.widgets.table import Table

ROW_HEIGHT = 25
_PIECES = Qt.ItemDataRole.UserRole + 1
_MARKED = Qt.ItemDataRole.UserRole + 2
_GAP = 7
_SMALL = 11
_SIDE, _RIGHT = 6, 4
_TINT = 26
"""Opacity of the ground of a marked row, 0 to 255."""

_BAR = 3
"""Width of the bar that marks a selected row, in logical pixels."""

_LINE = 17
MOST_LINES = 4
"""Of one cell; what does not fit is in the tooltip."""

_WORD = re.compile(r"\S+\s*")


class Piece(NamedTuple):
    """A part of a cell."""

    text: str
    tone: str = "text"
    """Name of a colour of the theme."""

    bold: bool = False
    small: bool = False


class Line(NamedTuple):
    """A row of the table."""

    cells: tuple[tuple[Piece, ...], ...]
    tip: str = ""
    is_marked: bool = False


def piece(text: str, tone: str = "text", *, bold: bool = False) -> tuple[Piece, ...]:
    """Return a cell of one piece."""
    return (Piece(text, tone, bold),)


class SegmentTable(Table):
    """Rows are selected as a whole, and copied with Ctrl+C."""

    def __init__(self, name: str, titles: Sequence[str], first: float) -> None:
        """`titles`: of the columns; empty texts: no header. `first`: the width of the first column
        in logical pixels, or as a share below 1."""
        super().__init__(name, ROW_HEIGHT, single=False)
        self._share = first if first < 1 else 0.0
        self._model = QStandardItemModel(0, len(titles), self)
        self._model.setHorizontalHeaderLabels(list(titles))
        self._lines: list[Line] = []
        self.setModel(self._model)
        self.setItemDelegate(_PieceDelegate(self))
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        header = self.horizontalHeader()
        header.setStretchLastSection(True)
        header.setVisible(any(titles))
        if not self._share:
            self.setColumnWidth(0, int(first))
        self.copy = self.add_copy("Copy rows")
        self._fit()

    @property
    def lines(self) -> list[Line]:
        """The rows that are shown."""
        return self._lines

    def show_lines(self, lines: Sequence[Line]) -> None:
        """Replace the rows, if they differ."""
        if list(lines) == self._lines:
            return
        self._lines = list(lines)
        self._model.setRowCount(0)
        for line in lines:
            self._model.appendRow([self._item(line, cell) for cell in line.cells])
        self._fit()

    def text_of(self, row: int) -> list[str]:
        """Return the texts of a row, as they are copied and read aloud."""
        return [_text(cell) for cell in self._lines[row].cells]

    def copied(self, rows: Iterable[int]) -> str:
        """Return these rows as tab-separated texts; no titles: most tables have none."""
        return "\n".join("\t".join(self.text_of(row)) for row in rows)

    def sizeHint(self) -> QSize:
        """As wide as it may be, as high as its rows."""
        return QSize(240, self.height())

    def _item(self, line: Line, cell: tuple[Piece, ...]) -> QStandardItem:
        text = _text(cell)
        item = QStandardItem(text)
        item.setEditable(False)
        item.setData(cell, _PIECES)
        item.setData(line.is_marked, _MARKED)
        item.setToolTip(plain_tip("\n".join(filter(None, [text, line.tip]))))
        return item

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Break the texts anew."""
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            if self._share:
                self.setColumnWidth(0, int(event.size().width() * self._share))
            self._fit()

    def _fit(self) -> None:
        header = self.horizontalHeader()
        height = header.sizeHint().height() if not header.isHidden() else 0
        for row, line in enumerate(self._lines):
            lines = 1
            for column, cell in enumerate(line.cells):
                room = self.columnWidth(column) - _SIDE - _RIGHT
                lines = max(lines, len(flow(cell, room, self.font())))
            size = ROW_HEIGHT + (lines - 1) * _LINE
            self.setRowHeight(row, size)
            height += size
        self.setFixedHeight(height + 2 * self.frameWidth())
        self.updateGeometry()


class _PieceDelegate(QStyledItemDelegate):
    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        widget: QWidget = option.widget
        area: QRect = option.rect
        state: QStyle.StateFlag = option.state
        theme = theme_of(QGuiApplication.palette())
        painter.save()
        is_selected = bool(state & QStyle.StateFlag.State_Selected)
        if index.data(_MARKED) and not is_selected:
            tint = QColor(theme.warn)
            tint.setAlpha(_TINT)
            painter.fillRect(area, tint)
        if is_selected and index.column() == 0:
            painter.fillRect(area.adjusted(0, 0, _BAR - area.width(), 0), QColor(theme.accent))
        painter.setPen(QColor(theme.line))
        painter.drawLine(area.bottomLeft(), area.bottomRight())
        lines = flow(index.data(_PIECES), area.width() - _SIDE - _RIGHT, widget.font())
        for number, words in enumerate(lines):
            top = area.top() + number * _LINE
            for left, text, each in words:
                painter.setFont(_font(each, widget.font()))
                painter.setPen(QColor(getattr(theme, each.tone)))
                place = QRect(area.left() + _SIDE + left, top, area.width() - left, ROW_HEIGHT)
                middle = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
                painter.drawText(place, int(middle), text)
        painter.restore()


Words = list[tuple[int, str, Piece]]
"""The texts of one line, with their distance from its begin in logical pixels."""


def flow(cell: Sequence[Piece], room: int, font: QFont) -> list[Words]:
    """Break the pieces of a cell into lines of `room` logical pixels, at most MOST_LINES."""
    lines: list[Words] = [[]]
    left = 0
    for each in cell:
        metrics = QFontMetrics(_font(each, font))
        for text in _parts(each.text, room - left if lines[-1] else room, room, metrics):
            width = metrics.horizontalAdvance(text)
            if lines[-1] and left + width > room:
                if len(lines) == MOST_LINES:
                    begin, last, its = lines[-1][-1]
                    its_metrics = QFontMetrics(_font(its, font))
                    mode, rest = Qt.TextElideMode.ElideRight, f"{last} {text}{each.text}"
                    lines[-1][-1] = begin, its_metrics.elidedText(rest, mode, room - begin), its
                    return lines
                lines.append([])
                left = 0
            lines[-1].append((left, text, each))
            left += width + _GAP
    return lines


def _parts(text: str, first: int, room: int, metrics: QFontMetrics) -> list[str]:
    """Return `text` in parts that each fit into a line; the first one into the rest of one, if
    the text is longer than a line."""
    if metrics.horizontalAdvance(text) <= room:
        return [text]
    parts, now, limit = [], "", max(first, room // 3)
    for word in _WORD.findall(text):
        while metrics.horizontalAdvance(now + word) > limit:
            if now.strip():
                parts.append(now.rstrip())
                now, limit = "", room
                continue
            fitting = max(1, _fitting(word, limit, metrics))
            parts.append(word[:fitting])
            word, limit = word[fitting:], room
        now += word
    return [*parts, now.rstrip()] if now.strip() else parts


def _fitting(word: str, room: int, metrics: QFontMetrics) -> int:
    """Return how many characters of `word` fit."""
    count = len(word)
    while count > 1 and metrics.horizontalAdvance(word[:count]) > room:
        count -= max(1, count // 8)
    return count


def _font(each: Piece, font: QFont) -> QFont:
    found = QFont(font)
    found.setBold(each.bold)
    if each.small:
        found.setPixelSize(_SMALL)
    return found


def _text(cell: Sequence[Piece]) -> str:
    return " ".join(each.text for each in cell if each.text)
