"""The dialogs before a run resumes: which checkpoint, which recipe, what if one is damaged."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QMessageBox, QProgressBar, QProgressDialog, QPushButton, QWidget

from engine.messages.events import RecipeVersion
from engine.runs.checkpoints.checkpoint_files import CheckpointInfo
from engine.runs.run_info import RunInfo
from engine.system import units
from gui.bridge.engine_client import EngineClient, ResumeRequest
from gui.bridge.files.script_files import by_calls, resuming
from gui.run_form.run_form import RunForm
from gui.run_list.checkpoint_dialog import CheckpointDialog

_SHORT_MS = 1000
"""A verification that is expected to take less time is not shown."""


class ResumeDialogs(QObject):
    """Asks the user from which checkpoint a run resumes, then resumes it."""

    def __init__(self, client: EngineClient, form: RunForm, window: QWidget) -> None:
        super().__init__(window)
        self._client = client
        self._form = form
        self._window = window
        self._forked: dict[str, str] = {}
        """The checkpoint from which a new run goes on, by the run that has it."""

        self._to_change: set[str] = set()
        self._progress: QProgressDialog | None = None
        client.checkpoints_listed.connect(self._offer_checkpoints)
        client.checkpoint_unusable.connect(self._ask_for_previous)
        client.recipe_changed.connect(self._ask_for_recipe)
        client.resume_refused.connect(self._show_refusal)
        client.verifying.connect(self._show_progress)
        client.resume_ended.connect(self._end_progress)

    def resume(self, run_id: str) -> None:
        """Resume the run from its newest checkpoint; without any, from the beginning."""
        self._client.resume(ResumeRequest(run_id))

    def resume_from_older(self, run_id: str) -> None:
        """Let the user choose the checkpoint from which the run resumes."""
        self._to_change.discard(run_id)
        self._client.list_checkpoints(run_id)

    def continue_with_changes(self, run_id: str) -> None:
        """Let the user choose the checkpoint, then change the settings in the form."""
        self._to_change.add(run_id)
        self._client.list_checkpoints(run_id)

    def fork(self, run_id: str, checkpoint: str) -> None:
        """Let the user change the settings with which a new run goes on from a checkpoint."""
        self._forked[run_id] = checkpoint
        self._client.list_checkpoints(run_id)

    def _offer_checkpoints(self, info: RunInfo, checkpoints: list[CheckpointInfo]) -> None:
        forked = self._forked.pop(info.id, "")
        for each in checkpoints:
            if each.folder.name == forked:
                self._continue(info, each, as_new=True)
                return
        with_changes = info.id in self._to_change
        if info.spec.is_script and not by_calls(info):
            if with_changes:
                self._continue(info, None)
            else:
                self._show_refusal(info.id, resuming(info))
            return
        if not checkpoints and with_changes and info.can_resume:
            self._continue(info, None)
            return
        if not checkpoints:
            self._show_refusal(info.id, f"Run {info.id} has no checkpoint to resume from.")
            return

        def go_on(chosen: CheckpointInfo) -> None:
            if with_changes:
                self._continue(info, chosen)
            else:
                self._client.resume(ResumeRequest(info.id, chosen.folder))

        dialog = CheckpointDialog(info.id, checkpoints, self._window, with_changes=with_changes)
        dialog.chosen.connect(go_on)
        dialog.open()

    def _continue(
        self, info: RunInfo, checkpoint: CheckpointInfo | None, *, as_new: bool = False
    ) -> None:
        fill = partial(self._form.continue_run, info, checkpoint, as_new=as_new)
        self._client.recipes.read(info, fill)

    def _ask_for_previous(self, request: ResumeRequest, damaged: str, previous: Path) -> None:
        buttons = QMessageBox.StandardButton
        text = (
            f"The checkpoint {damaged} of run {request.run_id} is damaged: its files are not "
            "what was saved.\n\nResume from the intact checkpoint before it, "
            f"{previous.name}?"
        )
        box = self._box(QMessageBox.Icon.Question, request.run_id, text)
        box.setStandardButtons(buttons.Yes | buttons.No)
        box.setDefaultButton(buttons.Yes)
        again = request._replace(checkpoint=previous)
        box.accepted.connect(lambda: self._client.resume(again))
        box.open()

    def _ask_for_recipe(self, request: ResumeRequest, changes: str) -> None:
        lines = "\n".join(changes.split(", "))
        text = (
            f"The recipe of run {request.run_id} has changed since its start:\n\n{lines}\n\n"
            "Continue with the recipe as it was, which the run has kept, or as it is now?"
        )
        box = self._box(QMessageBox.Icon.Question, request.run_id, text)

        def add(version: RecipeVersion, caption: str) -> QPushButton:
            again = request._replace(recipe=version)
            button = box.addButton(caption, QMessageBox.ButtonRole.AcceptRole)
            button.clicked.connect(lambda: self._client.resume(again))
            return button

        box.setDefaultButton(add(RecipeVersion.AS_IT_WAS, "As it &was"))
        add(RecipeVersion.AS_IT_IS_NOW, "As it is &now")
        box.addButton(QMessageBox.StandardButton.Cancel)
        box.open()

    def _show_progress(self, run_id: str, done: int, total: int) -> None:
        if self._progress is None:
            title = f"Resume run {run_id}"
            self._progress = QProgressDialog("", "Cancel", 0, 100, self._window)
            self._progress.setWindowTitle(title)
            self._progress.setMinimumDuration(_SHORT_MS)
            bar = QProgressBar()
            bar.setTextVisible(False)
            self._progress.setBar(bar)
            self._progress.setRange(0, 100)
            self._progress.setAutoReset(False)
            self._progress.setAutoClose(False)
            self._progress.canceled.connect(self._client.cancel_resume)
        text = f"The checkpoint of run {run_id} is read again and compared with its checksums."
        read = f"{units.byte_size(done)} of {units.byte_size(total)}"
        self._progress.setLabelText(f"{text}\n{read}")
        self._progress.setValue(100 * done // max(total, 1))

    def _end_progress(self) -> None:
        if self._progress is not None:
            self._progress.hide()  # `close` would mean Cancel
            self._progress.deleteLater()
            self._progress = None

    def _show_refusal(self, run_id: str, sentences: str) -> None:
        self._box(QMessageBox.Icon.Warning, run_id, sentences).open()

    def _box(self, icon: QMessageBox.Icon, run_id: str, text: str) -> QMessageBox:
        box = QMessageBox(self._window)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setIcon(icon)
        box.setWindowTitle(f"Resume run {run_id}")
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setText(text)
        return box
