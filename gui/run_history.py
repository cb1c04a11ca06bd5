"""The list RUNS: every run there is, newest first; a click opens it."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QRect, QSize, Qt, Signal
from PySide6.QtGui import QAction, QColor, QFontMetrics, QPainter
from PySide6.QtWidgets import (
    QListWidget,
    QListWidgetItem,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from engine.client import RunInfo
from gui import wording
from gui.state_look import dot, state_colour
from gui.theme import Theme

_ID = Qt.ItemDataRole.UserRole
_DETAIL = Qt.ItemDataRole.UserRole + 1
_COLOUR = Qt.ItemDataRole.UserRole + 2
_ROW_HEIGHT = 42


class RunHistory(QListWidget):
    """Shows the runs and which one is being watched."""

    opened = Signal(str)
    """Id of the run that the user wants to see."""

    copy_requested = Signal(object)
    """RunSpec of a run whose settings should be filled into the form."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._infos: list[RunInfo] = []
        self.watched: str | None = None
        """Id of the run that is selected."""

        self._filling = False
        self._delegate = _RunDelegate(theme)
        self.setItemDelegate(self._delegate)
        self.setAccessibleName("Runs")
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.currentItemChanged.connect(self._current_changed)
        self.copy_settings = QAction("Use these settings for a new run", self)
        self.copy_settings.triggered.connect(self._copy_settings)
        self.addAction(self.copy_settings)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)

    def show_runs(self, infos: list[RunInfo]) -> None:
        """List `infos`, newest first; the watched run stays selected."""
        if infos == self._infos:
            return
        self._infos = infos
        self._filling = True
        while self.count() > len(infos):
            self.takeItem(self.count() - 1)
        for row, info in enumerate(infos):
            item = self.item(row) or self._new_item()
            item.setData(_ID, info.id)
            item.setText(info.title)
            item.setData(_DETAIL, detail(info))
            item.setData(_COLOUR, state_colour(info.state, self._theme))
            item.setToolTip(info.reason or str(info.state))
        self._filling = False
        self.watch(self.watched)

    def watch(self, run_id: str | None) -> None:
        """Select the run that is being watched, without opening it again."""
        self.watched = run_id
        self._filling = True
        row = next((row for row, info in enumerate(self._infos) if info.id == run_id), -1)
        self.setCurrentRow(row)
        self._filling = False

    def set_theme(self, theme: Theme) -> None:
        """Colour the dots and the details for `theme`."""
        self._theme = theme
        self._delegate.theme = theme
        infos, self._infos = self._infos, []
        self.show_runs(infos)
        self.viewport().update()

    def _new_item(self) -> QListWidgetItem:
        item = QListWidgetItem()
        self.addItem(item)
        return item

    def _current_changed(self, item: QListWidgetItem | None) -> None:
        if item is not None and not self._filling:
            self.watched = item.data(_ID)
            self.opened.emit(self.watched)

    def _copy_settings(self) -> None:
        if self.currentRow() >= 0:
            self.copy_requested.emit(self._infos[self.currentRow()].spec)


def detail(info: RunInfo) -> str:
    """The second line of a run: state, a figure of merit, when it ended."""
    parts = [str(info.state)]
    metrics = info.status.metrics
    merit = [name for name in metrics if name.startswith("validation/")]
    best_known = sorted(merit, key=lambda name: name.endswith("/loss"))[:1]
    parts += [
        f"{wording.metric_name(name)} {wording.metric(name, metrics[name])}" for name in best_known
    ]
    if info.state.is_over and info.status.updated:
        parts.append(wording.day(info.status.updated))
    return " · ".join(parts)


class _RunDelegate(QStyledItemDelegate):
    """Draws a run in two lines with its dot."""

    def __init__(self, theme: Theme) -> None:
        super().__init__()
        self.theme = theme

    def sizeHint(
        self, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> QSize:
        return QSize(100, _ROW_HEIGHT)

    def paint(
        self,
        painter: QPainter,
        option: QStyleOptionViewItem,
        index: QModelIndex | QPersistentModelIndex,
    ) -> None:
        rect: QRect = option.rect
        state: QStyle.StateFlag = option.state
        painter.save()
        if state & (QStyle.StateFlag.State_Selected | QStyle.StateFlag.State_MouseOver):
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(QColor(self.theme.card2))
            painter.drawRoundedRect(rect.adjusted(0, 1, -2, -1), 5, 5)
        painter.drawPixmap(rect.left() + 6, rect.top() + 7, dot(index.data(_COLOUR)))
        text = rect.adjusted(22, 4, -8, -4)
        painter.setPen(QColor(self.theme.text))
        _elided(painter, text, Qt.AlignmentFlag.AlignTop, index.data())
        font = painter.font()
        font.setPixelSize(11)
        painter.setFont(font)
        painter.setPen(QColor(self.theme.muted))
        _elided(painter, text, Qt.AlignmentFlag.AlignBottom, index.data(_DETAIL))
        painter.restore()


def _elided(painter: QPainter, rect: QRect, place: Qt.AlignmentFlag, text: str) -> None:
    metrics = QFontMetrics(painter.font())
    cut = metrics.elidedText(text, Qt.TextElideMode.ElideRight, rect.width())
    painter.drawText(rect, Qt.AlignmentFlag.AlignLeft | place, cut)
