"""What people do to runs in the list: write on them, delete them, run them again, compare them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMessageBox, QWidget

from engine.runs import trash
from engine.runs.run_info import RunInfo
from engine.runs.run_notes import RunNotes, write_notes
from engine.runs.trash import CannotDelete
from engine.system import paths
from gui.bridge.background import Background
from gui.run_list.notes_dialog import NotesDialog
from gui.run_list.run_list_panel import RunListPanel
from gui.run_list.run_list_view import RunListView
from gui.run_list.selection import ChosenRuns
from gui.style.state_style import state_name

_MOST_OFFERED = 20
"""Runs of the trash that can be brought back one by one; the newest."""


class CannotWrite(Exception):
    """Notes that could not be written; the text is a sentence."""


class RunListActions(QObject):
    """Adds its actions to the list of runs, and carries them out on another thread."""

    changed = Signal()
    """The runs or what is written on them are not what they were."""

    failed = Signal(str)
    """A sentence about something asked for that did not happen."""

    leaving = Signal(list)
    """Ids of the runs that are about to be deleted: nobody may hold their files open."""

    again_requested = Signal(object)
    """RunSpec of a run that should be run once more, just so."""

    def __init__(
        self,
        history: RunListView,
        panel: RunListPanel,
        chosen: ChosenRuns,
        background: Background,
        window: QWidget,
    ) -> None:
        super().__init__(window)
        self._history = history
        self._panel = panel
        self._chosen = chosen
        self._background = background
        self._window = window
        self._deleted: list[str] = []
        self.again = self._action(self.tr("Run again with these settings"), self._run_again)
        self.compare = self._action(self.tr("Compare the selected runs"), self._compare)
        self.notes = self._action(self.tr("Name, tags and note…"), self._write_notes, "F2")
        self.delete = self._action(self.tr("Delete (to the trash)"), self._delete, "Del")
        panel.undo_clicked.connect(self._undo)
        panel.empty_trash.triggered.connect(self._ask_to_empty)
        panel.more.menu().aboutToShow.connect(self._offer_trash)
        history.selection_changed.connect(self._offer)
        self._offer()

    def _action(self, text: str, call: Callable[[], None], keys: str = "") -> QAction:
        action = QAction(text, self)
        action.triggered.connect(call)
        if keys:
            action.setShortcut(QKeySequence(keys))
            action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        self._history.addAction(action)
        return action

    def _offer(self) -> None:
        """Enable what the selection allows, and say what it does not."""
        selected = self._history.selected()
        self.again.setEnabled(len(selected) == 1)
        self.compare.setEnabled(len(selected) > 1)
        self.notes.setEnabled(bool(selected))
        self.notes.setText(
            self.tr("Name, tags and note…") if len(selected) < 2 else self.tr("Add tags…")
        )
        self.delete.setEnabled(bool(self._history.selected_ids()))
        text = self.tr("Delete (to the trash)")
        if active := self._active():
            text = self.tr("Delete: run {run} is {state}, stop it first")
            text = text.format(run=active.id, state=state_name(active.state))
        self.delete.setText(text)

    def _active(self) -> RunInfo | None:
        """The first of the selected runs that is not over."""
        return next((info for info in self._history.selected() if not info.state.is_over), None)

    def _offer_trash(self) -> None:
        found = trash.trashed()
        count, menu = len(found), self._panel.bring_back
        menu.clear()
        menu.setEnabled(bool(count))
        for run_id in found[:_MOST_OFFERED]:
            text = self.tr("Run {run}").format(run=run_id)
            menu.addAction(text).triggered.connect(partial(self._bring_back, [run_id]))
        if count > 1:
            text = self.tr("All {count}").format(count=count)
            menu.addAction(text).triggered.connect(partial(self._bring_back, found))
        self._panel.empty_trash.setEnabled(bool(count))
        self._panel.empty_trash.setText(
            self.tr("Empty trash ({count})…").format(count=count)
            if count
            else self.tr("Empty trash")
        )

    def _run_again(self) -> None:
        for info in self._history.selected():
            self.again_requested.emit(info.spec)

    def _compare(self) -> None:
        self._chosen.choose([info.id for info in self._history.selected()])
        self._panel.compare.setChecked(True)

    def _write_notes(self) -> None:
        dialog = NotesDialog(self._history.selected(), self._panel.known_tags(), self._window)
        dialog.written.connect(self._save_notes)
        dialog.open()

    def _save_notes(self, notes: dict[str, RunNotes]) -> None:
        def work() -> None:
            for run_id, each in notes.items():
                try:
                    write_notes(paths.run_folder(run_id), each)
                except OSError as error:
                    sentence = self.tr("The notes on run {run} cannot be written: {why}.")
                    why = sentence.format(run=run_id, why=error.strerror)
                    raise CannotWrite(why) from error

        self._background.run(work, lambda _: self.changed.emit(), self._fail)

    def _delete(self) -> None:
        if active := self._active():
            sentence = self.tr("Run {run} is {state}: stop it before you delete it.")
            self.failed.emit(sentence.format(run=active.id, state=state_name(active.state)))
            return
        run_ids = self._history.selected_ids()
        self.leaving.emit(run_ids)
        work = partial(_each, trash.delete, run_ids)
        self._background.run(work, self._were_deleted, self._fail)

    def _were_deleted(self, outcome: tuple[list[str], str]) -> None:
        self._deleted, problem = outcome
        self._offer_undo()
        self.changed.emit()
        if problem:
            self.failed.emit(problem)

    def _offer_undo(self) -> None:
        match self._deleted:
            case []:
                said = ""
            case [run_id]:
                said = self.tr("Run {run} is in the trash.").format(run=run_id)
            case several:
                said = self.tr("{count} runs are in the trash.").format(count=len(several))
        self._panel.undo_bar.say(said)

    def _undo(self) -> None:
        self._bring_back(self._deleted)

    def _bring_back(self, run_ids: list[str], *_: bool) -> None:
        self._deleted = [each for each in self._deleted if each not in run_ids]
        self._offer_undo()
        work = partial(_each, trash.restore, run_ids)
        self._background.run(work, self._came_back, self._fail)

    def _came_back(self, outcome: tuple[list[str], str]) -> None:
        self.changed.emit()
        if outcome[1]:
            self.failed.emit(outcome[1])

    def _ask_to_empty(self) -> None:
        count = len(trash.trashed())
        box = QMessageBox(self._window)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setIcon(QMessageBox.Icon.Warning)
        box.setWindowTitle(self.tr("Empty trash"))
        question = self.tr(
            "Delete {count} runs for good, with checkpoints and logs? There is no way back."
        )
        if count == 1:
            question = self.tr(
                "Delete 1 run for good, with checkpoints and logs? There is no way back."
            )
        box.setText(question.format(count=count))
        box.setStandardButtons(QMessageBox.StandardButton.Cancel)
        empty = box.addButton(self.tr("Empty trash"), QMessageBox.ButtonRole.DestructiveRole)
        box.setDefaultButton(QMessageBox.StandardButton.Cancel)
        empty.clicked.connect(self._empty)
        box.open()

    def _empty(self) -> None:
        self._deleted = []
        self._panel.undo_bar.say("")
        self._background.run(trash.empty, lambda _: self.changed.emit(), self._fail)

    def _fail(self, error: Exception) -> None:
        if not isinstance(error, (CannotDelete, CannotWrite, OSError)):
            raise error
        self.changed.emit()
        self.failed.emit(str(error))


def _each(do: Callable[[str], None], run_ids: Sequence[str]) -> tuple[list[str], str]:
    """Delete or restore each of the runs; with which it went well, and what is to be said about
    the others."""
    done: list[str] = []
    problems: list[str] = []
    for run_id in run_ids:
        try:
            do(run_id)
            done.append(run_id)
        except CannotDelete as error:
            problems.append(str(error))
    return done, " ".join(problems)
