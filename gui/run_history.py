"""The list RUNS: a click opens a run, a click on its box chooses it for the comparison."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from PySide6.QtCore import QModelIndex, QPoint, QPointF, Qt, Signal, SignalInstance
from PySide6.QtGui import QAction, QKeyEvent, QMouseEvent
from PySide6.QtWidgets import QAbstractItemView, QListWidget, QListWidgetItem, QWidget

from engine.client import RunInfo, UnreadableRun
from engine.run_state import RunState
from gui import wording
from gui.run_row import COLOUR, DETAIL, ID, TAGS, RunDelegate, box_rect
from gui.state_look import state_colour, state_words
from gui.theme import Theme


class _Row(NamedTuple):
    id: str
    title: str
    detail: str
    colour: str
    tip: str
    tags: tuple[str, ...]


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

    toggled = Signal(str)
    """Id of a run whose box was clicked."""

    selection_changed = Signal()
    """Other runs are selected, or what they allow has changed."""
    move_requested = Signal(str, str)
    """Id of a queued run, and where it should go: one of `engine.queue.WAYS`."""

    copy_requested = Signal(object)
    """RunSpec of a run whose settings should be filled into the form."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._infos: list[RunInfo] = []
        self._unreadable: list[UnreadableRun] = []
        self._rows: list[_Row] = []
        self.watched: str | None = None
        """Id of the run that is selected."""

        self._filling = False
        self._delegate = RunDelegate(theme)
        self.setItemDelegate(self._delegate)
        self.setUniformItemSizes(True)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setAccessibleName("Runs")
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.itemSelectionChanged.connect(self._selection_changed)
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
        """List `infos` in their order; the selected runs stay selected."""
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
        row = next((place for place, row in enumerate(self._rows) if row.id == run_id), -1)
        self.clearSelection()  # else a row stays selected whose run is another one by now
        self.setCurrentRow(row)
        self._filling = False
        self._offer()

    def selected_ids(self) -> list[str]:
        """Ids of the selected runs, in the order of the list."""
        return [self._rows[row].id for row in sorted(i.row() for i in self.selectedIndexes())]

    def selected(self) -> list[RunInfo]:
        """The selected runs, in the order of the list."""
        ids = set(self.selected_ids())
        return [info for info in self._infos if info.id in ids]

    def show_chosen(self, colours: Mapping[str, int], baseline: str | None) -> None:
        """Fill the boxes of these runs, each in its colour of the comparison."""
        self._delegate.chosen, self._delegate.baseline = colours, baseline
        self.viewport().update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Choose the run whose box is clicked; everything else selects."""
        row = self._row_of_box(event.position())
        if event.button() == Qt.MouseButton.LeftButton and row is not None:
            if row < len(self._infos):
                self.toggled.emit(self._infos[row].id)
            return
        super().mousePressEvent(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Take the second click on a box as another click."""
        if self._row_of_box(event.position()) is not None:
            self.mousePressEvent(event)
            return
        super().mouseDoubleClickEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Choose the selected runs with the space bar."""
        if event.key() == Qt.Key.Key_Space:
            for info in self.selected():
                self.toggled.emit(info.id)
            return
        super().keyPressEvent(event)

    def set_theme(self, theme: Theme) -> None:
        """Colour the dots and the details for `theme`."""
        self._theme = theme
        self._delegate.theme = theme
        self._fill()
        self.viewport().update()

    def _fill(self) -> None:
        """Show what is known now, touching only the rows that have changed."""
        rows = [*map(self._row, self._infos), *map(self._unreadable_row, self._unreadable)]
        before, self._rows = self._rows, rows
        selected = {before[index.row()].id for index in self.selectedIndexes()}
        self._filling = True
        while self.count() > len(rows):
            self.takeItem(self.count() - 1)
        for place, row in enumerate(rows):
            item = self.item(place) or self._new_item()
            if place < len(before) and before[place] == row:
                continue
            item.setData(ID, row.id)
            item.setText(row.title)
            item.setData(DETAIL, row.detail)
            item.setData(TAGS, row.tags)
            item.setData(COLOUR, row.colour)
            item.setToolTip(row.tip)
        self._filling = False
        self.watch(self.watched)
        if len(selected) > 1:
            self._select(selected)

    def _row(self, info: RunInfo) -> _Row:
        colour = state_colour(info.state, self._theme)
        return _Row(info.id, info.title, detail(info), colour, tip(info), info.notes.tags)

    def _unreadable_row(self, run: UnreadableRun) -> _Row:
        return _Row(
            run.id, f"#{run.id}", f"unreadable · {run.reason}", self._theme.bad, run.reason, ()
        )

    def _new_item(self) -> QListWidgetItem:
        item = QListWidgetItem()
        self.addItem(item)
        return item

    def _row_of_box(self, position: QPointF) -> int | None:
        point: QPoint = position.toPoint()
        index: QModelIndex = self.indexAt(point)
        inside = index.isValid() and box_rect(self.visualRect(index)).contains(point)
        return index.row() if inside else None

    def _select(self, run_ids: set[str]) -> None:
        self._filling = True
        for place, row in enumerate(self._rows):
            self.item(place).setSelected(row.id in run_ids)
        self._filling = False
        self._offer()

    def _selection_changed(self) -> None:
        """Open a run that is selected alone: selecting several is for doing the same to them."""
        if self._filling:
            return
        selected = self.selected_ids()
        self._offer()
        if len(selected) == 1 and selected[0] != self.watched:
            self.watched = selected[0]
            self.opened.emit(self.watched)

    def _current(self) -> RunInfo | None:
        """The readable run that is selected alone."""
        selected = self.selected()
        return selected[0] if len(selected) == 1 == len(self.selectedIndexes()) else None

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
        self.selection_changed.emit()

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


def tip(info: RunInfo) -> str:
    """What there is no room for in the list."""
    lines = [info.title, info.reason or f"{info.state.capitalize()}."]
    lines += [f"Tags: {', '.join(info.notes.tags)}"] if info.notes.tags else []
    lines += [info.notes.note] if info.notes.note else []
    return "\n".join(lines)
