"""A table of the links between all GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QDialogButtonBox,
    QHeaderView,
    QTableWidget,
    QTableWidgetItem,
    QWidget,
)

from engine.telemetry.gpu_topology import KINDS, link_kinds
from engine.telemetry.snapshot import DeviceSnapshot, Link, LinkKind, Snapshot
from gui.style.device_labels import device_name
from gui.widgets.boxes import column_of
from gui.widgets.plain_text import Label, plain_tip


def short(kind: LinkKind) -> str:
    """Return the text of `kind` in a cell."""
    return {
        "NVLink": "NVL",
        "PCIe switch": "switch",
        "host bridge": "host",
        "NUMA node": "NUMA",
        "system": "system",
        "unknown": "?",
    }[kind]


def meaning(kind: LinkKind) -> str:
    """Return the text of `kind` at the end of a sentence."""
    return {
        "NVLink": "joined by NVLink, the fastest way",
        "PCIe switch": "behind the same PCIe switch",
        "host bridge": "behind the same host bridge of the CPU",
        "NUMA node": "on the same CPU, over its inner connections",
        "system": "on different CPUs, over the connection between their sockets",
        "unknown": "the driver does not say how they are joined",
    }[kind]


class LinkMatrix(QTableWidget):
    """GPUs by GPUs: the link of each pair, the fastest kind in bold."""

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Links between the GPUs")
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setSelectionMode(QAbstractItemView.SelectionMode.NoSelection)
        self.horizontalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self.horizontalHeader().setMinimumSectionSize(36)
        self.verticalHeader().setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        self._shown: tuple[dict[str, str], tuple[Link, ...]] | None = None

    def show_links(self, gpus: Sequence[DeviceSnapshot], links: Sequence[Link]) -> None:
        """Show `links` between `gpus`."""
        labels = {gpu.id: gpu.label for gpu in gpus}
        wanted = (labels, tuple(links))
        if wanted == self._shown:
            return
        self._shown = wanted
        kinds = link_kinds(links)
        names = {gpu.id: device_name(gpu) for gpu in gpus}
        self.setRowCount(len(names))
        self.setColumnCount(len(names))
        self.setVerticalHeaderLabels(list(names.values()))
        self.setHorizontalHeaderLabels(list(labels.values()))
        for row, (first, name) in enumerate(names.items()):
            for column, (second, other) in enumerate(names.items()):
                if row == column:
                    self.setItem(row, column, _cell("–", name))
                    continue
                kind = kinds.get(frozenset((first, second)), "unknown")
                item = _cell(short(kind), f"{name} and {other}: {meaning(kind)}")
                if kind == KINDS[0]:
                    font = item.font()
                    font.setBold(True)
                    item.setFont(font)
                self.setItem(row, column, item)
        self.resizeRowsToContents()
        height = self.horizontalHeader().sizeHint().height() + self.verticalHeader().length()
        self.setFixedHeight(height + 12)


class LinksDialog(QDialog):
    """The matrix in a dialog, with a legend."""

    def __init__(self, snapshot: Snapshot, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Links between the GPUs")
        self.matrix = LinkMatrix()
        self.matrix.show_links(gpus_of(snapshot), snapshot.links)
        legend = Label(
            "\n".join(f"{short(kind)}: {meaning(kind)}" for kind in KINDS), objectName="note"
        )
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        column_of((self.matrix, 1), legend, buttons, parent=self)
        self.resize(520, 420)


def gpus_of(snapshot: Snapshot) -> list[DeviceSnapshot]:
    """Return the GPUs of `snapshot`, in their order."""
    return [device for device in snapshot.devices if device.kind == "gpu"]


def _cell(text: str, tip: str) -> QTableWidgetItem:
    item = QTableWidgetItem(text)
    item.setTextAlignment(Qt.AlignmentFlag.AlignCenter)
    item.setToolTip(plain_tip(tip))
    item.setData(Qt.ItemDataRole.AccessibleTextRole, tip)
    return item
