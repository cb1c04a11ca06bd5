"""The tables in the details of a GPU: the users of its memory, and its slices."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTreeWidget, QTreeWidgetItem

from engine.telemetry.memory_attribution import MemoryUse
from engine.telemetry.snapshot import MigSlice
from gui.devices import device_text
from gui.widgets.plain_text import plain_tip

Row = tuple[str, ...]

USERS_CAPTIONS = ("Who", "PID", "User", "Memory", "Tensors", "Cache", "Context")
SLICES_CAPTIONS = ("Slice", "In use", "UUID")


class FactTable(QTreeWidget):
    """A table of texts; it only writes cells that have changed, so that a selection stays."""

    def __init__(self, captions: Sequence[str], name: str) -> None:
        super().__init__()
        self.setAccessibleName(name)
        self.setRootIsDecorated(False)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setHeaderLabels(list(captions))
        self.header().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self.header().setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self.header().setStretchLastSection(False)

    def show_rows(self, rows: Sequence[Row], tips: Sequence[str] = ()) -> None:
        """Show `rows`, each with its tooltip from `tips` if there is one."""
        for number, row in enumerate(rows):
            item = self.topLevelItem(number)
            if item is None:
                item = QTreeWidgetItem()
                self.addTopLevelItem(item)
            tip = tips[number] if number < len(tips) else ""
            for column, text in enumerate(row):
                if item.text(column) != text:
                    item.setText(column, text)
                if item.toolTip(column) != tip:
                    item.setToolTip(column, plain_tip(tip))
        while self.topLevelItemCount() > len(rows):
            self.takeTopLevelItem(self.topLevelItemCount() - 1)
        line = max(self.sizeHintForRow(0), 20)
        self.setFixedHeight(self.header().sizeHint().height() + line * len(rows) + 6)


def user_rows(use: MemoryUse) -> tuple[list[Row], list[str]]:
    """Return the users of the memory as rows below `USERS_CAPTIONS`, and the tooltips of the
    rows."""
    rows: list[Row] = []
    tips = []
    for each in use.ours:
        worker = each.worker
        parts = (each.tensors, each.cache, each.context)
        name = f"{worker.run}, rank {worker.rank}"
        amounts = [device_text.gib(amount) for amount in (each.total, *parts)]
        rows.append((name, str(worker.pid), "own run", *amounts))
        not_split = (
            "Not available: the worker has not reported yet, or reports the sum of several GPUs."
        )
        tips.append(not_split if each.tensors is None else "")
    for process in sorted(use.others, key=lambda process: -(process.memory or 0)):
        name = process.name or device_text.UNKNOWN
        user, memory = process.user or device_text.UNKNOWN, device_text.gib(process.memory)
        rows.append((name, str(process.pid), user, memory, "", "", ""))
        shared = "The driver does not count its memory by process."
        tips.append(shared if process.memory is None else "")
    if use.unassigned:
        name, memory = "an unknown process", device_text.gib(use.unassigned)
        rows.append((name, "", "", memory, "", "", ""))
        tips.append("In use, but not by a listed process or by one of our runs.")
    if use.reserved:
        name, memory = "reserved by driver", device_text.gib(use.reserved)
        rows.append((name, "", "", memory, "", "", ""))
        tips.append("What the driver reserves for itself.")
    return rows, tips


def slice_rows(slices: Sequence[MigSlice]) -> list[Row]:
    """Return the slices as rows below `SLICES_CAPTIONS`."""
    return [
        (each.name, device_text.of_total(each.memory_used, each.memory_total), each.uuid)
        for each in slices
    ]
