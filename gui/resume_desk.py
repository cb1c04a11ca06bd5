"""How a run that is over goes on: from which checkpoint, on what, and what if that is damaged."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, Qt
from PySide6.QtWidgets import QMessageBox, QWidget

from engine.checkpoint import CheckpointInfo
from gui.checkpoint_dialog import CheckpointDialog
from gui.run_controller import ResumeRequest, RunController
from gui.run_form import RunForm


class ResumeDesk(QObject):
    """Takes the wish to resume a run, asks back where there is something to decide."""

    def __init__(self, controller: RunController, form: RunForm, window: QWidget) -> None:
        super().__init__(window)
        self._controller = controller
        self._form = form
        self._window = window
        self._wish: ResumeRequest | None = None
        controller.checkpoints_listed.connect(self._offer_checkpoints)
        controller.checkpoint_unusable.connect(self._ask_for_previous)
        controller.resume_refused.connect(self._say_why_not)

    def resume(self, run_id: str) -> None:
        """Let the run go on from its newest checkpoint."""
        self._controller.resume(ResumeRequest(run_id))

    def resume_from_older(self, run_id: str) -> None:
        """Let the user choose the checkpoint from which the run goes on."""
        self._wish = None
        self._controller.list_checkpoints(run_id)

    def resume_as_form(self, run_id: str) -> None:
        """Let the user choose the checkpoint from which the run goes on with what the form shows
        now: its strategy on its devices."""
        strategy = self._form.strategy.strategy().name
        devices = self._form.devices.devices()
        self._wish = ResumeRequest(run_id, strategy=strategy, devices=devices)
        self._controller.list_checkpoints(run_id)

    def _offer_checkpoints(self, run_id: str, checkpoints: list[CheckpointInfo]) -> None:
        wish, self._wish = self._wish, None
        if not checkpoints:
            self._say_why_not(
                run_id, self.tr("Run {run} has no checkpoint to resume from.").format(run=run_id)
            )
            return
        request = wish if wish and wish.run_id == run_id else ResumeRequest(run_id)
        dialog = CheckpointDialog(run_id, checkpoints, self._window, self._changes(request))
        dialog.chosen.connect(
            lambda folder: self._controller.resume(request._replace(checkpoint=folder))
        )
        dialog.open()

    def _changes(self, request: ResumeRequest) -> str:
        """What of `request` is as the form says, and how to change the rest; empty without."""
        if request.devices is None:
            return ""
        devices = ", ".join(map(self._form.devices.spoken, request.devices))
        sentence = self.tr(
            "The run goes on with {strategy} on {devices}, as the form says. Every other setting "
            "stays as it was: to change one, start a new run (“Use these settings for a new run”)."
        )
        return sentence.format(strategy=request.strategy, devices=devices or self.tr("no device"))

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

    def _say_why_not(self, run_id: str, sentences: str) -> None:
        self._box(QMessageBox.Icon.Warning, run_id, sentences).open()

    def _box(self, icon: QMessageBox.Icon, run_id: str, text: str) -> QMessageBox:
        box = QMessageBox(self._window)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setIcon(icon)
        box.setWindowTitle(self.tr("Resume run {run}").format(run=run_id))
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setText(text)
        return box
