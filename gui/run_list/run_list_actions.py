"""The actions of the list of runs: notes, copies, trash, run again, compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QMessageBox, QWidget

from engine.runs.run_info import RunInfo
from gui.bridge.background import Background
from gui.bridge.machines.machines import place_of
from gui.bridge.run_files import RunFiles
from gui.run_list.chosen_runs import ChosenRuns
from gui.run_list.notes_dialog import NotesDialog
from gui.run_list.run_list_panel import RunListPanel
from gui.run_list.run_list_view import RunListView
from gui.style.state_style import state_name

_MOST_OFFERED = 20
"""The menu lists at most this many runs of the trash, the newest."""


class RunListActions(QObject):
    """Adds its actions to the list of runs, and carries them out in the background."""

    changed = Signal()
    """Runs or their notes have changed."""

    failed = Signal(str)
    """A sentence: why an action has failed."""

    deletion_started = Signal(list)
    """Ids of the runs that are about to be deleted: their files must be closed."""

    rerun_requested = Signal(object)
    """RunInfo of a run that should be started again with the same settings."""

    export_wanted = Signal(list)
    """list[RunInfo]: the user wants to export them."""

    checkpoint_wanted = Signal(object)
    """RunInfo of a run of which the user wants to copy a checkpoint."""

    def __init__(
        self,
        run_list: RunListView,
        panel: RunListPanel,
        chosen: ChosenRuns,
        background: Background,
        window: QWidget,
    ) -> None:
        super().__init__(window)
        self._list = run_list
        self._panel = panel
        self._chosen = chosen
        self._files = RunFiles(background, self)
        self._files.changed.connect(self.changed)
        self._files.failed.connect(self.failed)
        self._files.deleted.connect(self._show_undo)
        self._window = window
        self._deleted: list[str] = []
        self.again = self._action("Run again", self._run_again)
        self.compare = self._action("Compare the selected runs", self._compare)
        self.notes = self._action("Name, tags and note…", self._write_notes, "F2")
        self.export = self._action("Export…", self._export)
        self.copy_checkpoint = self._action("Copy a checkpoint…", self._copy_checkpoint)
        self.delete = self._action("Move to the trash", self._delete, "Del")
        panel.undo_clicked.connect(self._undo)
        panel.empty_trash.triggered.connect(lambda: self._ask_to_empty(""))
        panel.more.menu().aboutToShow.connect(self._fill_trash_menu)
        run_list.selection_changed.connect(self._update_actions)
        self._update_actions()

    def _action(self, text: str, call: Callable[[], None], keys: str = "") -> QAction:
        action = QAction(text, self)
        action.triggered.connect(call)
        if keys:
            action.setShortcut(QKeySequence(keys))
            action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)
        self._list.addAction(action)
        return action

    def _update_actions(self) -> None:
        """Enable the actions that the selection allows; the text of a disabled one says why."""
        selected = self._list.selected()
        is_imported = any(info.spec.is_imported for info in selected)
        self.again.setEnabled(len(selected) == 1 and not is_imported)
        again = "Run again: an imported run was not trained here"
        self.again.setText(again if is_imported else "Run again")
        self.export.setEnabled(bool(selected))
        has_checkpoint = any(info.status.checkpoint for info in selected)
        self.copy_checkpoint.setEnabled(len(selected) == 1 and has_checkpoint)
        self.compare.setEnabled(len(selected) > 1)
        self.notes.setEnabled(bool(selected))
        self.notes.setText("Name, tags and note…" if len(selected) < 2 else "Add tags…")
        self.delete.setEnabled(bool(self._list.selected_ids()))
        text = "Move to the trash"
        if active := self._active():
            text = (
                f"Move to the trash: run {active.id} is {state_name(active.state)}, stop it first"
            )
        self.delete.setText(text)

    def _active(self) -> RunInfo | None:
        """Return the first selected run that has not ended."""
        return next((info for info in self._list.selected() if not info.state.is_over), None)

    def _fill_trash_menu(self) -> None:
        found = self._files.trashed()
        count, menu = len(found), self._panel.restore_menu
        menu.clear()
        menu.setEnabled(bool(count))
        for run_id in found[:_MOST_OFFERED]:
            text = f"Run {run_id}"
            menu.addAction(text).triggered.connect(partial(self._restore, [run_id]))
        if count > 1:
            text = f"All {count}"
            menu.addAction(text).triggered.connect(partial(self._restore, found))
        counts = Counter(place_of(run_id)[0] for run_id in found)
        count = counts.pop("", 0)
        self._panel.empty_trash.setEnabled(bool(count))
        self._panel.empty_trash.setText(f"Empty trash ({count})…" if count else "Empty trash")
        others = self._panel.empty_elsewhere
        others.clear()
        others.menuAction().setVisible(bool(counts))
        for machine, count in counts.items():
            text = f"{machine} ({count})…"
            others.addAction(text).triggered.connect(partial(self._ask_to_empty, machine))

    def _run_again(self) -> None:
        for info in self._list.selected():
            self.rerun_requested.emit(info)

    def _compare(self) -> None:
        self._chosen.choose([info.id for info in self._list.selected()])
        self._panel.compare.setChecked(True)

    def _export(self) -> None:
        self.export_wanted.emit(self._list.selected())

    def _copy_checkpoint(self) -> None:
        for info in self._list.selected():
            self.checkpoint_wanted.emit(info)

    def _write_notes(self) -> None:
        self.write_notes(self._list.selected())

    def write_notes(self, infos: Sequence[RunInfo]) -> None:
        """Ask for the name, tags and note of a run, or for tags and a note of several."""
        dialog = NotesDialog(infos, self._panel.known_tags(), self._window)
        dialog.wanted.connect(self._files.write_notes)
        self._files.notes_written.connect(dialog.end)
        self._files.notes_refused.connect(dialog.show_failure)
        dialog.open()

    def _delete(self) -> None:
        self._delete_ended(self._active(), self._list.selected_ids())

    def delete_runs(self, infos: Sequence[RunInfo]) -> None:
        """Move these runs to the trash, unless one of them has not ended."""
        active = next((info for info in infos if not info.state.is_over), None)
        self._delete_ended(active, [info.id for info in infos])

    def _delete_ended(self, active: RunInfo | None, run_ids: list[str]) -> None:
        if active:
            sentence = (
                f"Run {active.id} is {state_name(active.state)}: stop it before you delete it."
            )
            self.failed.emit(sentence)
            return
        self.deletion_started.emit(run_ids)
        self._files.delete(run_ids)

    def _show_undo(self, deleted: list[str]) -> None:
        """Offer to restore the runs that were deleted last."""
        self._deleted = deleted
        match deleted:
            case []:
                text = ""
            case [run_id]:
                text = f"Run {run_id} is in the trash."
            case several:
                text = f"{len(several)} runs are in the trash."
        self._panel.undo_bar.show_text(text)

    def _undo(self) -> None:
        self._restore(self._deleted)

    def _restore(self, run_ids: list[str], *_: bool) -> None:
        self._show_undo([each for each in self._deleted if each not in run_ids])
        self._files.restore(run_ids)

    def _ask_to_empty(self, machine: str, *_: bool) -> None:
        found = [each for each in self._files.trashed() if place_of(each)[0] == machine]
        count = len(found)
        if not count:
            return  # it was emptied elsewhere
        box = QMessageBox(self._window)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setIcon(QMessageBox.Icon.Warning)
        box.setWindowTitle("Empty trash")
        question = (
            f"Delete {count} runs for good, with checkpoints and logs? This cannot be undone."
        )
        if count == 1:
            question = "Delete 1 run for good, with checkpoints and logs? This cannot be undone."
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setText(f"{machine}: {question}" if machine else question)
        box.setStandardButtons(QMessageBox.StandardButton.Cancel)
        empty = box.addButton("Empty trash", QMessageBox.ButtonRole.DestructiveRole)
        box.setDefaultButton(QMessageBox.StandardButton.Cancel)
        empty.clicked.connect(lambda: self._empty_trash(found))
        box.open()

    def _empty_trash(self, run_ids: list[str]) -> None:
        self._show_undo([each for each in self._deleted if each not in run_ids])
        self._files.empty_trash(run_ids)
