"""Resumes a run from a checkpoint; asks the user which one, and what to do if it is damaged."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QMessageBox, QWidget

from engine.runs.checkpoint_files import CheckpointInfo
from engine.runs.run_info import RunInfo
from gui.bridge.run_controller import ResumeRequest, RunController
from gui.run_form.run_form import RunForm
from gui.run_list.checkpoint_dialog import CheckpointDialog


class ResumeController(QObject):
    """Carries out requests to resume a run, with the dialogs that they need."""

    def __init__(self, controller: RunController, form: RunForm, window: QWidget) -> None:
        super().__init__(window)
        self._controller = controller
        self._form = form
        self._window = window
        self._to_change: set[str] = set()
        controller.checkpoints_listed.connect(self._offer_checkpoints)
        controller.checkpoint_unusable.connect(self._ask_for_previous)
        controller.resume_refused.connect(self._show_refusal)

    def resume(self, run_id: str) -> None:
        """Resume the run from its newest checkpoint."""
        self._controller.resume(ResumeRequest(run_id))

    def resume_from_older(self, run_id: str) -> None:
        """Let the user choose the checkpoint from which the run resumes."""
        self._to_change.discard(run_id)
        self._controller.list_checkpoints(run_id)

    def continue_with_changes(self, run_id: str) -> None:
        """Let the user choose the checkpoint, then change the settings in the form."""
        self._to_change.add(run_id)
        self._controller.list_checkpoints(run_id)

    def _offer_checkpoints(self, info: RunInfo, checkpoints: list[CheckpointInfo]) -> None:
        if not checkpoints:
            text = self.tr("Run {run} has no checkpoint to resume from.").format(run=info.id)
            self._show_refusal(info.id, text)
            return
        with_changes = info.id in self._to_change

        def go_on(chosen: CheckpointInfo) -> None:
            if with_changes:
                self._form.continue_run(info, chosen)
            else:
                self._controller.resume(ResumeRequest(info.id, chosen.folder))

        dialog = CheckpointDialog(info.id, checkpoints, self._window, with_changes=with_changes)
        dialog.chosen.connect(go_on)
        dialog.open()

    def _ask_for_previous(self, request: ResumeRequest, damaged: str, previous: Path) -> None:
        buttons = QMessageBox.StandardButton
        text = self.tr(
            "The checkpoint {damaged} of run {run} is damaged: its files are not what was saved."
            "\n\nResume from the intact checkpoint before it, {previous}?"
        )
        text = text.format(damaged=damaged, run=request.run_id, previous=previous.name)
        box = self._box(QMessageBox.Icon.Question, request.run_id, text)
        box.setStandardButtons(buttons.Yes | buttons.No)
        box.setDefaultButton(buttons.Yes)
        again = request._replace(checkpoint=previous)
        box.accepted.connect(lambda: self._controller.resume(again))
        box.open()

    def _show_refusal(self, run_id: str, sentences: str) -> None:
        self._box(QMessageBox.Icon.Warning, run_id, sentences).open()

    def _box(self, icon: QMessageBox.Icon, run_id: str, text: str) -> QMessageBox:
        box = QMessageBox(self._window)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setIcon(icon)
        box.setWindowTitle(self.tr("Resume run {run}").format(run=run_id))
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setText(text)
        return box
