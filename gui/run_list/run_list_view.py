"""The list of runs: a click opens a run, a click on its box chooses it for the comparison."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from PySide6.QtCore import (
    QEvent,
    QItemSelection,
    QItemSelectionModel,
    QPointF,
    Qt,
    QTimer,
    Signal,
    SignalInstance,
)
from PySide6.QtGui import QAction, QKeyEvent, QKeySequence, QMouseEvent
from PySide6.QtWidgets import QAbstractItemView, QListView, QWidget

from engine.runs.run_info import RunInfo, UnreadableRun
from engine.runs.run_state import RunState
from gui.bridge.files.script_files import by_calls
from gui.bridge.liveness import Silence
from gui.run_list.run_delegate import ROW_HEIGHT, RunDelegate, box_rect
from gui.run_list.run_list_model import ListedRun, RunListModel
from gui.style.theme import Theme

_MINUTE_MS = 60_000


class RunListView(QListView):
    """Shows the runs; the selected row is the watched run."""

    opened = Signal(str)
    """Id of the run that the user opens."""

    resume_requested = Signal(str)
    """Id of a run that should resume from its newest checkpoint."""

    resume_from_older_requested = Signal(str)
    """Id of a run that should resume from a checkpoint that the user chooses next."""

    continue_requested = Signal(str)
    """Id of a run that should resume from a checkpoint that the user chooses next, with changed
    settings."""

    toggled = Signal(str)
    """Id of a run whose box was clicked."""

    selection_changed = Signal()
    """The selection, or the state of the selected runs, has changed."""

    search_wanted = Signal()
    """The user pressed the shortcut of the search."""

    move_requested = Signal(str, str)
    """Id of a queued run, and where to move it: one of `engine.runs.device_queue.MOVES`."""

    copy_requested = Signal(object)
    """RunInfo of a run whose settings should be copied into the form."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._infos: list[RunInfo] = []
        self._unreadable: list[UnreadableRun] = []
        self._newest: RunInfo | None = None
        self.watched: str | None = None
        """Id of the selected run."""

        self._is_filling = False
        self._model = RunListModel(theme, self)
        self.setModel(self._model)
        self._delegate = RunDelegate(theme)
        self.setItemDelegate(self._delegate)
        self.setUniformItemSizes(True)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.verticalScrollBar().setSingleStep(ROW_HEIGHT // 2)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setAccessibleName("Runs")
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.selectionModel().selectionChanged.connect(self._selection_changed)
        self.resume = self._add_request(resume_text(None), self.resume_requested)
        self.resume_from_older = self._add_request(
            "Resume from an older checkpoint…", self.resume_from_older_requested
        )
        self.continue_changed = self._add_request(
            "Resume with changed settings…", self.continue_requested
        )
        self.moves = {
            "first": self._add_request("Start first in the queue", self.move_requested, "first"),
            "up": self._add_request("Move up in the queue", self.move_requested, "up"),
            "down": self._add_request("Move down in the queue", self.move_requested, "down"),
        }
        self.copy_settings = QAction("Copy settings to the form", self)
        self.copy_settings.triggered.connect(self._copy_settings)
        self.addAction(self.copy_settings)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.ActionsContextMenu)
        self._clock = QTimer(self)
        self._clock.timeout.connect(self.viewport().update)
        self._clock.start(_MINUTE_MS)  # for "2 min ago"
        self._update_actions()

    def show_runs(self, infos: list[RunInfo], depths: Mapping[str, int] | None = None) -> None:
        """List `infos` in their order, with the indents `depths`; the selection stays."""
        depths = depths or {}
        if infos != self._infos or depths != self._model.depths:
            self._infos, self._model.depths = infos, depths
            self._fill()
            self.viewport().update()

    def show_status(self, info: RunInfo) -> None:
        """Show the newest state of one run, before all of them are read again: its row and the
        figures above the plots must not differ."""
        self._newest = info
        row = self._model.row_of(info.id)
        before = self._model.runs()[row] if row >= 0 else None
        if isinstance(before, RunInfo):
            self._model.show(self._with_newest(before))

    def _with_newest(self, run: RunInfo) -> RunInfo:
        """Return `run` with the newest state that is known of it."""
        newest = self._newest
        if newest is None or newest.id != run.id or newest.status.updated < run.status.updated:
            return run
        return run._replace(status=newest.status, state=newest.state, reason=newest.reason)

    def show_unreadable(self, runs: list[UnreadableRun]) -> None:
        """List unreadable `runs` below the others; opening one shows the reason."""
        if runs != self._unreadable:
            self._unreadable = runs
            self._fill()

    def watch(self, run_id: str | None) -> None:
        """Select the watched run without opening it again."""
        self.watched = run_id
        with self._without_opening():
            self.clearSelection()  # otherwise a row stays selected that now shows another run
            self.setCurrentIndex(self._model.index(self._model.row_of(run_id)))

    def neighbour(self, run_ids: Sequence[str]) -> str | None:
        """Return the run to show after these are deleted: the next one below, otherwise above."""
        deleted = set(run_ids)
        runs, current = self._model.runs(), max(self._model.row_of(self.watched), 0)
        candidates = (*runs[current:], *reversed(runs[:current]))
        return next((run.id for run in candidates if run.id not in deleted), None)

    def selected_ids(self) -> list[str]:
        """Ids of the selected runs, in the order of the list."""
        return [run.id for run in self._selected()]

    def selected(self) -> list[RunInfo]:
        """The selected readable runs, in the order of the list."""
        return [run for run in self._selected() if isinstance(run, RunInfo)]

    def show_chosen(self, colours: Mapping[str, int], baseline: str | None) -> None:
        """Fill the boxes of these runs in their colours of the comparison."""
        self._delegate.chosen, self._delegate.baseline = colours, baseline
        self.viewport().update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Choose the run whose box is clicked; a click elsewhere selects."""
        row = self._row_of_box(event.position())
        if event.button() == Qt.MouseButton.LeftButton and row is not None:
            run = self._model.runs()[row]
            if isinstance(run, RunInfo):
                self.toggled.emit(run.id)
            return
        super().mousePressEvent(event)

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Treat the second click on a box as another click."""
        if self._row_of_box(event.position()) is not None:
            self.mousePressEvent(event)
            return
        super().mouseDoubleClickEvent(event)

    def event(self, event: QEvent) -> bool:
        """Handle the shortcut of the search here; elsewhere it searches the log."""
        if (
            event.type() is QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.matches(QKeySequence.StandardKey.Find)
        ):
            event.accept()
            return True
        if event.type() is QEvent.Type.Resize:
            self._cut_between_rows()
        return super().event(event)

    def _cut_between_rows(self) -> None:
        """End below the last row that is whole."""
        room = self.height() - 2 * self.frameWidth()
        rest = room % ROW_HEIGHT if self._model.rowCount() * ROW_HEIGHT > room else 0
        if self.viewportMargins().bottom() != rest:
            self.setViewportMargins(0, 0, 0, rest)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Space chooses the selected runs, Return opens one, Ctrl+F searches."""
        if event.matches(QKeySequence.StandardKey.Find):
            self.search_wanted.emit()
        elif event.key() == Qt.Key.Key_Space:
            for info in self.selected():
                self.toggled.emit(info.id)
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            selected = self.selected_ids()
            if len(selected) == 1:
                self.watched = selected[0]
                self.opened.emit(selected[0])
        else:
            super().keyPressEvent(event)

    def show_silence(self, silence: Silence) -> None:
        """Show the watched run in grey while it is silent, and for how long."""
        self._model.show_silence(self.watched, silence)

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of `theme`."""
        self._model.set_theme(theme)
        self._delegate.theme = theme
        self.viewport().update()

    def _fill(self) -> None:
        """Update the rows; selection and scroll position stay."""
        runs: list[ListedRun] = [*map(self._with_newest, self._infos), *self._unreadable]
        if self._model.has_same_rows(runs):
            self._model.update(runs)
            self._update_actions()
            return
        selected = self.selected_ids()
        bar = self.verticalScrollBar()
        above, below_edge = divmod(bar.value(), ROW_HEIGHT)
        listed = self._model.runs()
        top = listed[above].id if bar.value() and above < len(listed) else None
        with self._without_opening():
            self._model.replace(runs)
            self.watch(self.watched)
            if len(selected) > 1:
                self._select(selected)
            self.executeDelayedItemsLayout()
            row = self._model.row_of(top)
            bar.setValue(max(0, row * ROW_HEIGHT + below_edge) if row >= 0 else 0)
        self._cut_between_rows()

    def _selected(self) -> list[ListedRun]:
        runs = self._model.runs()
        # By ranges: one index object for each of thousands of rows would be slow.
        parts = self.selectionModel().selection()
        ranges = map(parts.at, range(parts.count()))
        rows = (row for part in ranges for row in range(part.top(), part.bottom() + 1))
        return [runs[row] for row in sorted(rows)]

    def _row_of_box(self, position: QPointF) -> int | None:
        point = position.toPoint()
        index = self.indexAt(point)
        inside = index.isValid() and box_rect(self.visualRect(index)).contains(point)
        return index.row() if inside else None

    def _select(self, run_ids: Iterable[str]) -> None:
        wanted = sorted(row for row in map(self._model.row_of, run_ids) if row >= 0)
        parts = QItemSelection()
        first = 0
        for place, row in enumerate(wanted):
            if place + 1 == len(wanted) or wanted[place + 1] != row + 1:
                parts.select(self._model.index(wanted[first]), self._model.index(row))
                first = place + 1
        self.selectionModel().select(parts, QItemSelectionModel.SelectionFlag.ClearAndSelect)

    @contextmanager
    def _without_opening(self) -> Iterator[None]:
        """Change the selection without opening a run."""
        outer, self._is_filling = self._is_filling, True
        yield
        self._is_filling = outer
        if not outer:
            self._update_actions()

    def _selection_changed(self) -> None:
        """Open the run if it is the only selected one: several are selected for a common action."""
        if self._is_filling:
            return
        selected = self.selected_ids()
        self._update_actions()
        if len(selected) == 1 and selected[0] != self.watched:
            self.watched = selected[0]
            self.opened.emit(self.watched)

    def _current(self) -> RunInfo | None:
        """Return the only selected run, if it is readable."""
        selected = self._selected()
        run = selected[0] if len(selected) == 1 else None
        return run if isinstance(run, RunInfo) else None

    def _add_request(self, text: str, signal: SignalInstance, *more: str) -> QAction:
        """Add an action that emits `signal` with the current run."""
        action = QAction(text, self)
        action.triggered.connect(lambda: self._emit_current(signal, *more))
        self.addAction(action)
        return action

    def _emit_current(self, signal: SignalInstance, *more: str) -> None:
        if info := self._current():
            signal.emit(info.id, *more)

    def _update_actions(self) -> None:
        """Enable the actions that the current run allows."""
        info = self._current()
        can_resume = bool(info and info.can_resume)
        is_own = info is not None and info.spec.is_script and not by_calls(info)
        may_change = can_resume if is_own else bool(info and info.can_continue)
        self.continue_changed.setEnabled(may_change)
        self.resume.setEnabled(can_resume)
        has_checkpoint = bool(info and info.status.checkpoint)
        self.resume_from_older.setEnabled(can_resume and has_checkpoint and not is_own)
        self.resume_from_older.setText(
            "Resume from an older checkpoint: only the script can load one"
            if is_own
            else "Resume from an older checkpoint…"
        )
        self.continue_changed.setText(
            "Start the command again with changed settings…"
            if is_own
            else "Resume with changed settings…"
        )
        self.resume.setText(resume_text(info))
        for action in self.moves.values():
            action.setVisible(info is not None and info.state is RunState.QUEUED)
        is_imported = info is not None and info.spec.is_imported
        self.copy_settings.setEnabled(info is not None and not is_imported)
        self.copy_settings.setText(
            "Copy settings to the form: an imported run has none of ours"
            if is_imported
            else "Copy settings to the form"
        )
        self.selection_changed.emit()

    def _copy_settings(self) -> None:
        if info := self._current():
            self.copy_requested.emit(info)


def resume_text(info: RunInfo | None) -> str:
    """Return the text of the resume action; if the run cannot resume, the text says why."""
    text = "Resume from the newest checkpoint"
    if info is None or not info.state.is_over:
        return text
    if info.status.ended_early:
        return "Resume: it has ended early, as its settings say"
    if info.spec.is_imported:
        return "Resume: an imported run was not trained here"
    if info.spec.is_script and not info.can_resume:
        return "Resume: the command has ended by itself"
    if not info.can_resume:
        return "Resume: all epochs are done"
    if info.spec.is_script and not by_calls(info):
        return "Resume: start the command again"
    again = "Resume from the beginning: there is no checkpoint"
    return text if info.status.checkpoint else again
