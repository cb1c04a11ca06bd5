"""The card DEVICES: what every GPU and the CPU of this machine is doing."""

from __future__ import annotations

import time

import msgspec
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QVBoxLayout, QWidget

from engine.telemetry.snapshot import Snapshot
from gui.device_row import DeviceRow

MOST_TALL_GPUS = 4
"""With more GPUs than these every device gets one line only."""

GONE = "The system does not list this device any more."


class DeviceList(QFrame):
    """A row per device, by its id; a device that was seen once keeps its row."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("card")
        self.setAccessibleName("Devices")
        self._rows: dict[str, DeviceRow] = {}
        heading = QLabel("DEVICES")
        heading.setObjectName("h")
        self.stale_note = QLabel()
        self.gpu_note = QLabel()
        for label in (self.stale_note, self.gpu_note):
            label.setObjectName("note")
        self.stale_note.setProperty("tone", "warning")
        self.gpu_note.setWordWrap(True)
        self.gpu_note.hide()
        top = QHBoxLayout()
        top.addWidget(heading)
        top.addStretch(1)
        top.addWidget(self.stale_note)
        self._column = QVBoxLayout()
        self._column.setSpacing(4)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(10, 8, 10, 8)
        layout.setSpacing(4)
        layout.addLayout(top)
        layout.addLayout(self._column)
        layout.addWidget(self.gpu_note)

    def row(self, id: str) -> DeviceRow:
        """The row of the device `id`."""
        return self._rows[id]

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show the devices as they are now."""
        self.set_stale(None)
        for device in snapshot.devices:
            if device.id not in self._rows:
                self._rows[device.id] = DeviceRow(len(self._rows))
                self._column.addWidget(self._rows[device.id])
            self._rows[device.id].show_device(device)
        listed = {device.id for device in snapshot.devices}
        for id, row in self._rows.items():
            if id not in listed and row.device is not None and row.device.lost is None:
                row.show_device(msgspec.structs.replace(row.device, lost=GONE, utilisation=None))
        gpus = sum(
            row.device is not None and row.device.kind == "gpu" for row in self._rows.values()
        )
        for row in self._rows.values():
            row.set_flat(gpus > MOST_TALL_GPUS)
        self.gpu_note.setText(snapshot.gpu_note)
        self.gpu_note.setVisible(bool(snapshot.gpu_note))

    def set_stale(self, since: float | None) -> None:
        """Grey the rows: the last figures are of `since` (seconds since the epoch). None: they are
        new."""
        for row in self._rows.values():
            row.set_stale(since is not None)
        clock = "" if since is None else time.strftime("%H:%M:%S", time.localtime(since))
        self.stale_note.setText(f"no news since {clock}" if clock else "")
