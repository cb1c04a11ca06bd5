"""The dialog in which the user chooses the checkpoint from which a run resumes."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QTreeWidget,
    QTreeWidgetItem,
    QVBoxLayout,
    QWidget,
)

from engine.runs.checkpoint_files import CheckpointInfo
from engine.runs.series_names import series_title
from engine.system import units
from gui.style import formatting
from gui.widgets.plain_text import Label, plain_tip

_SIZE = (620, 320)


class CheckpointDialog(QDialog):
    """Lists the checkpoints of a run, newest first, with the metrics at each."""

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
        self.setWindowTitle(self.tr("Resume run {run}").format(run=run_id))
        self.resize(*_SIZE)
        self._checkpoints = list(reversed(checkpoints))
        metrics = sorted({name for each in checkpoints for name in each.manifest.metrics})
        self.table = QTreeWidget()
        self.table.setRootIsDecorated(False)
        self.table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.table.setAccessibleName(self.tr("Checkpoints"))
        facts = (
            *(self.tr("Step"), self.tr("Epochs done"), self.tr("Kind")),
            *(self.tr("Saved"), self.tr("Size")),
        )
        captions = [
            *facts,
            *(series_title(name) for name in metrics),
        ]
        self.table.setHeaderLabels(captions)
        for each in self._checkpoints:
            item = QTreeWidgetItem([*_facts(each), *_figures(each, metrics)])
            item.setToolTip(0, plain_tip(str(each.folder)))
            self.table.addTopLevelItem(item)
        header = self.table.header()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self.table.setCurrentIndex(self.table.model().index(0, 0))
        text = self.tr(
            "The run continues from the chosen checkpoint. Points after its step are removed."
        )
        verb = self.tr("Resume")
        if with_changes:
            text = self.tr("Choose where the run continues. Then change its settings in the form.")
            verb = self.tr("Next")
        self.note = Label(text)
        self.note.setObjectName("mut")
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Cancel)
        resume = self.buttons.addButton(verb, QDialogButtonBox.ButtonRole.AcceptRole)
        resume.setObjectName("go")
        layout = QVBoxLayout(self)
        layout.addWidget(self.note)
        layout.addWidget(self.table, 1)
        layout.addWidget(self.buttons)
        resume.setDefault(True)  # only now that it is in a dialog; otherwise Return would cancel
        self.buttons.accepted.connect(self.accept)
        self.buttons.rejected.connect(self.reject)
        self.table.itemDoubleClicked.connect(self.accept)
        self.accepted.connect(self._choose)
        self.table.setFocus()

    def _choose(self) -> None:
        self.chosen.emit(self._checkpoints[self.table.currentIndex().row()])


def _facts(info: CheckpointInfo) -> list[str]:
    manifest = info.manifest
    return [
        f"{manifest.position.step:,}",
        str(manifest.position.epoch),
        ", ".join(manifest.kinds) or "–",
        units.date_or_time(manifest.saved),
        units.byte_size(manifest.bytes),
    ]


def _figures(info: CheckpointInfo, metrics: Sequence[str]) -> list[str]:
    known = info.manifest.metrics
    return [formatting.metric(name, known[name]) if name in known else "–" for name in metrics]
