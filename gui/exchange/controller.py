"""Opens the dialogs that export and import runs, and copy checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QSettings, Signal
from PySide6.QtWidgets import QFileDialog, QWidget

from engine.runs.run_info import RunInfo
from gui.bridge.background import Background
from gui.run_view.failure_banner import HOLDS_SAMPLES

if TYPE_CHECKING:
    from gui.bridge.exchange import Exchange, Imported
    from gui.exchange.copy_checkpoint_dialog import CopyCheckpointDialog
    from gui.exchange.export_dialog import ExportDialog
    from gui.exchange.import_dialog import ImportDialog


class ExchangeController(QObject):
    """Loads the writers and readers when a dialog is opened: a window without them opens sooner."""

    imported = Signal()
    """There are new runs."""

    open_wanted = Signal(str)
    """Id of an imported run that the user wants to see."""

    message = Signal(str)
    """A sentence for the status bar."""

    def __init__(self, background: Background, settings: QSettings, window: QWidget) -> None:
        super().__init__(window)
        self._background = background
        self._settings = settings
        self._window = window
        self._exchanges: list[Exchange] = []

    def export(self, infos: Sequence[RunInfo]) -> ExportDialog | None:
        """Ask how and where to export these runs."""
        from gui.exchange.export_dialog import ExportDialog

        if not infos:
            self.message.emit("There is no run to export.")
            return None
        dialog = ExportDialog(infos, self._exchange(), self._settings, self._window)
        dialog.show()
        return dialog

    def copy_checkpoint(self, info: RunInfo) -> CopyCheckpointDialog:
        """Ask which checkpoint of a run to copy, and where to."""
        from gui.exchange.copy_checkpoint_dialog import CopyCheckpointDialog

        dialog = CopyCheckpointDialog(info, self._exchange(), self._settings, self._window)
        dialog.show()
        return dialog

    def import_runs(self) -> ImportDialog:
        """Ask what to import."""
        from gui.exchange.import_dialog import ImportDialog

        exchange = self._exchange()
        exchange.imported.connect(lambda _: self.imported.emit())
        dialog = ImportDialog(exchange, self._window)
        dialog.open_wanted.connect(self.open_wanted)
        dialog.show()
        return dialog

    def open_case(self) -> None:
        """Ask for a failure file, and show its run."""
        kinds = "Failure files (*.tdcase)"
        file, _ = QFileDialog.getOpenFileName(self._window, "Open a failure file", "", kinds)
        if file:
            self.open_file(file)

    def open_file(self, file: str) -> None:
        """Make a run of a failure file, and show it."""
        from gui.bridge.exchange import ColumnNames

        exchange = self._exchange()

        def show(done: Imported) -> None:
            self.imported.emit()
            self.open_wanted.emit(done.run_ids[0])

        exchange.imported.connect(show)
        exchange.failed.connect(self.message)
        exchange.import_files([file], ColumnNames())

    def save_case(self, run_id: str) -> None:
        """Ask where to save the failure file of a run: it may hold samples of the data."""
        if not run_id:
            self.message.emit("Show a run that has failed first.")
            return
        name = f"run-{run_id.replace(':', '-')}.tdcase"
        title = f"Save the failure file. {HOLDS_SAMPLES}"
        target, _ = QFileDialog.getSaveFileName(self._window, title, name)
        if target:
            self.save_case_as(run_id, target)

    def save_case_as(self, run_id: str, target: str) -> None:
        """Save the failure file of a run."""
        exchange = self._exchange()
        exchange.saved.connect(
            lambda path: self.message.emit(f"The failure file is {path}. {HOLDS_SAMPLES}")
        )
        exchange.failed.connect(self.message)
        exchange.save_case(run_id, target)

    def shut_down(self) -> None:
        """Cancel what is under way: it leaves nothing behind."""
        for each in self._exchanges:
            each.cancel()

    def _exchange(self) -> Exchange:
        """Return a new one: several dialogs may be open."""
        from gui.bridge.exchange import Exchange

        self._exchanges.append(Exchange(self._background, self))
        return self._exchanges[-1]
