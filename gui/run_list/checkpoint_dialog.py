"""The dialog in which the user chooses the checkpoint from which a run resumes."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QWidget

from engine.runs.checkpoints.checkpoint_files import CheckpointInfo
from gui.run_view.checkpoint_table import CheckpointTable
from gui.widgets.boxes import column_of
from gui.widgets.plain_text import Label

_SIZE = (620, 320)


class CheckpointDialog(QDialog):
    """Lists the checkpoints of a run."""

    chosen = Signal(object)
    """CheckpointInfo."""

    def __init__(
        self,
        run_id: str,
        checkpoints: Sequence[CheckpointInfo],
        parent: QWidget | None = None,
        *,
        with_changes: bool = False,
    ) -> None:
        """`checkpoints` are sorted by step, at least one. `with_changes`: the form will ask for
        changed settings next."""
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(f"Resume run {run_id}")
        self.resize(*_SIZE)
        self.table = CheckpointTable(checkpoints)
        text = "The run continues from the chosen checkpoint. Points after its step are removed."
        verb = "Resume"
        if with_changes:
            text = "Choose where the run continues. Then change its settings in the form."
            verb = "Next"
        self.note = Label(text, objectName="mut")
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        resume = self.buttons.addButton(verb, QDialogButtonBox.ButtonRole.AcceptRole)
        resume.setObjectName("go")
        column_of(self.note, (self.table, 1), self.buttons, parent=self)
        resume.setDefault(True)  # only now that it is in a dialog; otherwise Return would cancel
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        self.table.itemDoubleClicked.connect(self.accept)
        self.accepted.connect(self._choose)
        self.table.setFocus()

    def _choose(self) -> None:
        self.chosen.emit(self.table.chosen())
