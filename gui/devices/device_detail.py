"""The dialog with everything that is known about one device."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QDialog, QDialogButtonBox, QGridLayout, QLabel, QWidget

from engine.telemetry.memory_attribution import MemoryUse
from engine.telemetry.snapshot import DeviceSnapshot, Snapshot
from gui.devices import device_text
from gui.devices.device_charts import DeviceCharts
from gui.devices.device_facts import Fact, facts
from gui.devices.device_tables import (
    SLICES_CAPTIONS,
    USERS_CAPTIONS,
    FactTable,
    slice_rows,
    user_rows,
)
from gui.devices.link_matrix import LinkMatrix, gpus_of
from gui.widgets.boxes import column_of, scrolled
from gui.widgets.plain_text import Label, plain_tip

_SIZE = (780, 720)
_COLUMNS = 2


class DeviceDetail(QDialog):
    """Facts, charts, memory users, slices and links of one device, updated with each snapshot."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.resize(*_SIZE)
        self.device_id = ""
        self._heading = Label(objectName="ttl")
        self.address = _note()
        self.state = _note()
        self.stale_note = _note()
        self.stale_note.setProperty("tone", "warning")
        self.stale_note.hide()
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(14)
        self._grid.setVerticalSpacing(4)
        self._values: dict[str, QLabel] = {}
        self.users = FactTable(USERS_CAPTIONS, "Who uses the memory")
        self.slices = FactTable(SLICES_CAPTIONS, "Slices")
        self.matrix = LinkMatrix()
        self.charts = DeviceCharts()
        self._sections: dict[QWidget, QLabel] = {
            self.users: _heading("WHO USES THE MEMORY"),
            self.slices: _heading("SLICES (MIG)"),
            self.matrix: _heading("LINKS BETWEEN THE GPUS"),
        }
        self._build_layout()

    def watch(self, id: str) -> None:
        """Show the device `id` from now on."""
        if id != self.device_id:
            self.device_id = id
            self.charts.watch(id)
            self._clear()

    def show_device(
        self, device: DeviceSnapshot, use: MemoryUse | None, snapshot: Snapshot
    ) -> None:
        """Show the state of `device`; `snapshot` has the links between all GPUs."""
        self.setWindowTitle(device_text.title(device))
        self._heading.setText(device_text.title(device))
        self.address.setText(f"{device.id}  {device.pci_bus or ''}" * (device.kind == "gpu"))
        self.state.setText(device_text.state(device))
        self.state.setVisible(bool(device_text.state(device)))
        self._show_facts(facts(device))
        rows, tips = user_rows(use) if use is not None else ([], [])
        self._show_section(self.users, bool(rows) and device.lost is None)
        self.users.show_rows(rows, tips)
        self._show_section(self.slices, bool(device.slices) and device.lost is None)
        self.slices.show_rows(slice_rows(device.slices))
        gpus = gpus_of(snapshot)
        self._show_section(self.matrix, device.kind == "gpu" and len(gpus) > 1)
        self.matrix.show_links(gpus, snapshot.links)

    def set_stale(self, since: float | None) -> None:
        """Show that the figures are as old as `since` (seconds since the epoch); None: current."""
        self.stale_note.setText("" if since is None else device_text.stale_text(since))
        self.stale_note.setVisible(since is not None)

    def value(self, caption: str) -> QLabel:
        """Return the label beside `caption`."""
        return self._values[caption]

    def _show_facts(self, found: list[Fact]) -> None:
        captions = [fact.caption for fact in found]
        if captions != list(self._values):
            self._clear()
            for number, caption in enumerate(captions):
                self._add_fact(number, caption, len(captions))
        for fact in found:
            label = self._values[fact.caption]
            label.setText(fact.value)
            label.setToolTip(plain_tip(fact.reason))
            text = f"{fact.value}, {fact.reason}" if fact.reason else fact.value
            label.setAccessibleName(f"{fact.caption}: {text}")
            if label.property("tone") != fact.tone:
                label.setProperty("tone", fact.tone)
                label.style().polish(label)

    def _add_fact(self, number: int, caption: str, count: int) -> None:
        lines = -(-count // _COLUMNS)
        column, line = divmod(number, lines)
        name = Label(caption, objectName="mut")
        value = Label(objectName="fact")
        self._values[caption] = value
        self._grid.addWidget(name, line, 2 * column)
        self._grid.addWidget(value, line, 2 * column + 1)
        self._grid.setColumnStretch(2 * column + 1, 1)

    def _clear(self) -> None:
        self._values = {}
        while (item := self._grid.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.hide()
                widget.deleteLater()

    def _build_layout(self) -> None:
        content = QWidget()
        content.setObjectName("content")
        column = column_of(
            self._heading, self.address, self.state, self.stale_note, self._grid, parent=content
        )
        column.addSpacing(6)
        column.addWidget(self.charts)
        for table, heading in self._sections.items():
            column.addSpacing(6)
            column.addWidget(heading)
            column.addWidget(table)
        column.addStretch(1)
        scroll = scrolled(content)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        column_of((scroll, 1), buttons, parent=self)

    def _show_section(self, table: QWidget, shown: bool) -> None:
        table.setVisible(shown)
        self._sections[table].setVisible(shown)


def _heading(text: str) -> QLabel:
    return Label(text, objectName="h")


def _note() -> QLabel:
    label = Label(objectName="note", wordWrap=True)
    label.setTextInteractionFlags(
        Qt.TextInteractionFlag.TextSelectableByMouse
        | Qt.TextInteractionFlag.TextSelectableByKeyboard
    )
    return label
