"""The dialog that copies a checkpoint of a run, of this machine or another one, to a folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QSettings
from PySide6.QtWidgets import QWidget

from engine.runs.checkpoints.checkpoint_files import CheckpointInfo
from engine.runs.run_info import RunInfo
from gui.bridge.exchange import Exchange
from gui.exchange.target_rows import TargetRows
from gui.exchange.work_dialog import WorkDialog
from gui.run_view.checkpoint_table import CheckpointTable

_FOLDER = "exchange/folder"
_TABLE_HEIGHT = 160


class CopyCheckpointDialog(WorkDialog):
    """Copies one checkpoint or several after each other; the last folder is remembered."""

    def __init__(
        self, info: RunInfo, exchange: Exchange, settings: QSettings | None, parent: QWidget
    ) -> None:
        title = f"Copy a checkpoint of {info.title}"
        super().__init__(title, "Copy", exchange, parent)
        self._run_id = info.id
        self._settings = settings
        self._done: Path | None = None
        self.about.setText(
            "Its files go into a new folder of this machine, all of them or none, and are "
            "compared with their checksums."
        )
        self.table = CheckpointTable()
        self.table.setFixedHeight(_TABLE_HEIGHT)
        self.form.addRow(self.table)
        stored = settings.value(_FOLDER) if settings is not None else None
        folder = stored if isinstance(stored, str) and stored else exchange.home()
        title = "Where to copy to"
        self.target = TargetRows(self.form, folder, self._proposed, title, self)
        self.begin.setEnabled(False)
        self.table.currentItemChanged.connect(lambda *_: self._show_chosen())
        self.show_button.clicked.connect(self._show_done)
        exchange.checkpoints_listed.connect(self._list)
        exchange.failed.connect(self._show_failure)
        exchange.copied.connect(self._copied)
        self.show_outcome("Reading the checkpoints…")
        exchange.list_checkpoints(info.id)

    def work(self) -> None:
        """Begin to copy."""
        chosen = self.table.chosen()
        assert chosen is not None, "without one, the button is disabled"
        if self._settings is not None:
            self._settings.setValue(_FOLDER, self.target.folder.text())
        self._exchange.copy_checkpoint(self._run_id, chosen.folder.name, self.target.path())

    def problem(self) -> str:
        return self.target.problem()

    def _list(self, checkpoints: Sequence[CheckpointInfo]) -> None:
        none = f"Run {self._run_id} has no checkpoint."
        self.show_outcome("" if checkpoints else none)
        self.table.show_checkpoints(checkpoints)
        self.table.setFocus()
        self._show_chosen()

    def _show_chosen(self) -> None:
        chosen = self.table.chosen()
        self.begin.setEnabled(chosen is not None and not self.is_working)
        if chosen is not None:
            self.target.propose()

    def _proposed(self, folder: str) -> str:
        chosen = self.table.chosen()
        run = self._run_id.replace(":", "-")
        return self._exchange.free_name(f"run-{run}-{chosen.folder.name}", folder) if chosen else ""

    def _show_failure(self, sentence: str) -> None:
        if self.table.chosen() is None:
            self.show_outcome(sentence, is_problem=True)

    def _copied(self, path: Path) -> None:
        if not self.is_working:
            return
        self._done = path
        self.done_with(f"The checkpoint is in {path}.", "Open folder")
        self.target.propose()

    def _show_done(self) -> None:
        if self._done is not None:
            self._exchange.open_folder(self._done)
