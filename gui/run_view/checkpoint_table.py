"""The table of the checkpoints of a run, newest first, with the metrics at each."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTreeWidget, QTreeWidgetItem, QWidget

from engine.runs.checkpoints.checkpoint_files import CheckpointInfo
from engine.runs.series_names import series_title
from engine.system import units
from gui.style import formatting
from gui.widgets.plain_text import plain_tip


class CheckpointTable(QTreeWidget):
    """One of its rows is current, the newest one at first."""

    def __init__(
        self, checkpoints: Sequence[CheckpointInfo] = (), parent: QWidget | None = None
    ) -> None:
        """`checkpoints` are sorted by step."""
        super().__init__(parent)
        self._checkpoints: list[CheckpointInfo] = []
        self.setRootIsDecorated(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setAccessibleName("Checkpoints")
        self.header().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self.show_checkpoints(checkpoints)

    def show_checkpoints(self, checkpoints: Sequence[CheckpointInfo]) -> None:
        """List these checkpoints, which are sorted by step."""
        self.clear()
        self._checkpoints = list(reversed(checkpoints))
        metrics = sorted({name for each in checkpoints for name in each.manifest.metrics})
        facts = (*("Step", "Epochs done", "Kind"), *("Saved", "Size"))
        self.setHeaderLabels([*facts, *(series_title(name) for name in metrics)])
        for each in self._checkpoints:
            item = QTreeWidgetItem([*_facts(each), *_figures(each, metrics)])
            item.setToolTip(0, plain_tip(str(each.folder)))
            self.addTopLevelItem(item)
        self.setCurrentIndex(self.model().index(0, 0))

    def chosen(self) -> CheckpointInfo | None:
        """Return the current checkpoint; None: there is none."""
        row = self.currentIndex().row()
        return self._checkpoints[row] if row >= 0 else None


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
