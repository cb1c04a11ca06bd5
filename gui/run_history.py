"""The list RUNS: every run there is, newest first; a click opens it."""

from __future__ import annotations

from typing import NamedTuple

from PySide6.QtCore import (
    QModelIndex,
    QPersistentModelIndex,
    QRect,
    QSize,
    Qt,
    Signal,
    SignalInstance,
)
from PySide6.QtGui import QAction, QColor, QFontMetrics, QPainter
from PySide6.QtWidgets import (
    QListWidget,
    QListWidgetItem,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from engine.client import RunInfo, UnreadableRun
from engine.run_state import RunState
from gui import wording
from gui.state_look import dot, state_colour, state_words
from gui.theme import Theme

_ID = Qt.ItemDataRole.UserRole
_DETAIL = Qt.ItemDataRole.UserRole + 1
_COLOUR = Qt.ItemDataRole.UserRole + 2
_ROW_HEIGHT = 42


class _Row(NamedTuple):
    id: str
    title: str
    detail: str
    colour: str
    tip: str


class RunHistory(QListWidget):
    """Shows the runs and which one is being watched."""

    opened = Signal(str)
    """Id of the run that the user wants to see."""

    resume_requested = Signal(str)
    """Id of a run that should go on from its newest checkpoint."""

    resume_from_older_requested = Signal(str)
    """Id of a run that should go on from a checkpoint that is yet to be chosen."""

    resume_as_form_requested = Signal(str)
    """Id of a run that should go on with the strategy and the devices that the form shows."""

    move_requested = Signal(str, str)
    """Id of a queued run, and where it should go: one of `engine.queue.WAYS`."""

    copy_requested = Signal(object)
    """RunSpec of a run whose settings should be filled into the form."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._infos: list[RunInfo] = []
        self._unreadable: list[UnreadableRun] = []
        self.watched: str | None = None
        """Id of the run that is selected."""

        self._filling = False
        self._delegate = _RunDelegate(theme)
        self.setItemDelegate(self._delegate)
        self.setAccessibleName("Runs")
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.currentItemChanged.connect(self._current_changed)
        self.resume = self._ask("Resume from the newest checkpoint", self.resume_requested)
        self.resume_from_older = self._ask(
            "Resume from an older checkpoint…", self.resume_from_older_requested
        )
        self.resume_as_form = self._ask(
            "Resume with the form's strategy and devices", self.resume_as_form_requested
        )
        self.moves = {
            "first": self._ask("Start first in the queue", self.move_requested, "first"),
            "up": self._ask("Move up in the queue", self.move_requested, "up"),
            "down": self._ask("Move down in the queue", self.move_requested, "down"),
        }
        self.copy_settings = QAction("Use these settings for a new run", self)
        self.copy_settings.triggered.connect(self._copy_settings)
        self.addAction(self.copy_settings)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        self._offer()

    def show_runs(self, infos: list[RunInfo]) -> None:
        """List `infos`, newest first; the watched run stays selected."""
        if infos != self._infos:
            self._infos = infos
            self._fill()

    def show_unreadable(self, runs: list[UnreadableRun]) -> None:
        """List `runs` below the others; opening one says what is wrong with it."""
        if runs != self._unreadable:
            self._unreadable = runs
            self._fill()

    def watch(self, run_id: str | None) -> None:
        """Select the run that is being watched, without opening it again."""
        self.watched = run_id
        self._filling = True
        ids = [self.item(row).data(_ID) for row in range(self.count())]
        self.setCurrentRow(ids.index(run_id) if run_id in ids else -1)
        self._filling = False
        self._offer()

    def set_theme(self, theme: Theme) -> None:
        """Colour the dots and the details for `theme`."""
        self._theme = theme
        self._delegate.theme = theme
        self._fill()
        self.viewport().update()

    def _fill(self) -> None:
        theme = self._theme
        rows = [
            _Row(
                info.id,
                info.title,
                detail(info),
                state_colour(info.state, theme),
                info.reason or str(info.state),
            )
            for info in self._infos
        ]
        rows += [
            _Row(run.id, f"#{run.id}", f"unreadable · {run.reason}", theme.bad, run.reason)
            for run in self._unreadable
        ]
        self._filling = True
        while self.count() > len(rows):
            self.takeItem(self.count() - 1)
        for place, row in enumerate(rows):
            item = self.item(place) or self._new_item()
            item.setData(_ID, row.id)
            item.setText(row.title)
            item.setData(_DETAIL, row.detail)
            item.setData(_COLOUR, row.colour)
            item.setToolTip(row.tip)
        self._filling = False
        self.watch(self.watched)

    def _new_item(self) -> QListWidgetItem:
        item = QListWidgetItem()
        self.addItem(item)
        return item

    def _current_changed(self, item: QListWidgetItem | None) -> None:
        if item is not None and not self._filling:
            self.watched = item.data(_ID)
            self._offer()
            self.opened.emit(self.watched)

    def _current(self) -> RunInfo | None:
        row = self.currentRow()
        return self._infos[row] if 0 <= row < len(self._infos) else None

    def _ask(self, text: str, signal: SignalInstance, *more: str) -> QAction:
        """An action that asks for something with the current run."""
        action = QAction(text, self)
        action.triggered.connect(lambda: self._emit_current(signal, *more))
        self.addAction(action)
        return action

    def _emit_current(self, signal: SignalInstance, *more: str) -> None:
        if info := self._current():
            signal.emit(info.id, *more)

    def _offer(self) -> None:
        """Enable the actions that the current run allows."""
        info = self._current()
        resumable = bool(info and info.state.can_resume and info.status.checkpoint)
        for action in (self.resume, self.resume_from_older, self.resume_as_form):
            action.setEnabled(resumable)
        for action in self.moves.values():
            action.setVisible(info is not None and info.state is RunState.QUEUED)
        self.copy_settings.setEnabled(info is not None)

    def _copy_settings(self) -> None:
        if info := self._current():
            self.copy_requested.emit(info.spec)


def detail(info: RunInfo) -> str:
    """The second line of a run: state, a figure of merit, when it ended."""
    parts = [state_words(info)]
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
