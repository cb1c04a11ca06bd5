"""The card DEVICES: the state of every GPU and of the CPU of this machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec
from PySide6.QtCore import Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QSizePolicy, QVBoxLayout, QWidget

from engine.doctor.finding import Finding
from engine.telemetry.memory_attribution import MemoryUse
from engine.telemetry.snapshot import Snapshot
from gui.devices import device_text
from gui.devices.device_rail import DeviceRail
from gui.devices.device_row import DeviceRow
from gui.devices.row_layouts import COMPACT_HEIGHT, detailed_height
from gui.style.device_labels import device_labels
from gui.widgets.boxes import column_of
from gui.widgets.layouts.fitting_scroll import FittingScroll
from gui.widgets.plain_text import Label, set_wrapped_tip

if TYPE_CHECKING:
    from gui.devices.device_detail import DeviceDetail

MISSING = "The system does not list this device any more."
"""Why a device that is no longer in the snapshot is lost."""

MAX_DETAILED_GPUS = 4
"""With more GPUs than these, every device has a compact row. The CPU beside GPUs always has one."""

_MIN_HEIGHT = 82
"""Minimum height of the visible rows (logical pixels): three compact rows."""

_GAP = 1
"""Logical pixels between two rows."""

_MARGINS, _SPACING = (6, 4, 6, 5), 2
"""Logical pixels around and between the parts; the rows have a margin for the focus ring."""


class DeviceList(QFrame):
    """One row per device id; a device that was seen once keeps its row."""

    detail_wanted = Signal(str)
    """Id of the device whose details are open; empty when the dialog has been closed."""

    doctor_wanted = Signal()
    """The user wants to see what is odd about this machine."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("card")
        self.setAccessibleName("Devices")
        self._rows: dict[str, DeviceRow] = {}
        self.rail = DeviceRail()
        """The same devices, for the place where the list has no room."""

        self._snapshot: Snapshot | None = None
        self._uses: Mapping[str, MemoryUse] = {}
        self._is_short = False
        heading = Label("DEVICES", objectName="h")
        self.stale_note = Label()
        self.gpu_note = Label()
        for label in (self.stale_note, self.gpu_note):
            label.setObjectName("note")
        self.stale_note.setProperty("tone", "warning")
        self.gpu_note.setWordWrap(True)
        self.gpu_note.hide()
        self.doctor_button = QPushButton()
        self.doctor_button.setObjectName("quiet")
        self.doctor_button.setFlat(True)
        self.doctor_button.clicked.connect(self.doctor_wanted)
        self.doctor_button.hide()
        self._top = top = QHBoxLayout()
        top.addWidget(heading)
        top.addStretch(1)
        top.addWidget(self.stale_note)
        top.setContentsMargins(4, 0, 4, 0)
        content = QWidget()
        inside = column_of(parent=content, margins=0, spacing=0)
        self._column = column_of(spacing=_GAP)
        inside.addLayout(self._column)
        self.gpu_note.setContentsMargins(4, 0, 4, 0)
        inside.addWidget(self.gpu_note)
        inside.addStretch(1)  # rows that have become lower stay at the top until the area follows
        self.rows_area = FittingScroll(content, _MIN_HEIGHT, self._column)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(*_MARGINS)
        layout.setSpacing(_SPACING)
        layout.addLayout(top)
        layout.addWidget(self.rows_area, 1)
        layout.addWidget(self.doctor_button)
        self.setSizePolicy(QSizePolicy.Policy.Preferred, QSizePolicy.Policy.Maximum)

    def add_corner(self, button: QWidget) -> None:
        """Put `button` at the right end of the heading."""
        self._top.addWidget(button)

    def fit(self, room: int) -> int:
        """Show one line per device if the detailed rows need more than `room` (logical pixels);
        return the height that all rows need."""
        rows = [row for row in self._rows.values() if row.device is not None]
        compact = [self._is_always_compact(row) for row in rows]
        is_short = self._height(rows, compact) > room
        if is_short is not self._is_short:
            self._is_short = is_short
            self._choose_layouts()
            self.rows_area.updateGeometry()  # at once, and not in the next turn of each layout
        return self._height(rows, [is_short or each for each in compact])

    def _height(self, rows: Sequence[DeviceRow], compact: Sequence[bool]) -> int:
        """Return the height in logical pixels with these rows, if so many of them are compact."""
        below = [each for each in (self.gpu_note, self.doctor_button) if not each.isHidden()]
        _, top, _, bottom = _MARGINS
        border = self.contentsMargins().top() + self.contentsMargins().bottom()
        around = border + top + self._top.sizeHint().height() + _SPACING + bottom
        around += sum(each.sizeHint().height() + _SPACING for each in below)
        return (
            around
            + _GAP * (len(rows) - 1)
            + sum(
                COMPACT_HEIGHT if is_compact else detailed_height(row.device)
                for row, is_compact in zip(rows, compact, strict=True)
            )
        )

    def row(self, id: str) -> DeviceRow:
        """Return the row of the device `id`."""
        return self._rows[id]

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show the current state of the devices."""
        self._snapshot = snapshot
        self.set_stale(None)
        for device in snapshot.devices:
            if device.id not in self._rows:
                self._add_row(device.id)
            self._rows[device.id].show_device(device, snapshot.time)
        listed = {device.id for device in snapshot.devices}
        for id, row in self._rows.items():
            if id not in listed and row.device is not None and row.device.lost is None:
                missing = msgspec.structs.replace(
                    row.device, lost=MISSING, lost_since=snapshot.time, utilisation=None
                )
                row.show_device(missing, snapshot.time)
        self._choose_layouts()
        labels = device_labels(snapshot)
        for id, row in self._rows.items():
            if id in labels:
                beside_gpus = self._is_cpu_beside_gpus(row)
                row.set_colour_index(None if beside_gpus else labels[id].colour_index)
            if row.device is not None:
                colour_index = labels[id].colour_index if id in labels else None
                self.rail.show_device(row.device, snapshot.time, colour_index, self._gpus > 0)
        self.gpu_note.setText(snapshot.gpu_note)
        self.gpu_note.setVisible(bool(snapshot.gpu_note))
        self.detail.charts.add_snapshot(snapshot)
        self._show_detail()

    @cached_property
    def detail(self) -> DeviceDetail:
        """The dialog; it is made with the first snapshot, when the window is on the screen."""
        from gui.devices.device_detail import DeviceDetail

        made = DeviceDetail(self)
        made.finished.connect(self._detail_closed)
        return made

    def show_uses(self, uses: Mapping[str, MemoryUse]) -> None:
        """Show who uses the memory of each GPU, by UUID."""
        self._uses = uses
        for id, row in self._rows.items():
            row.show_use(uses.get(id))
            self.rail.show_use(id, uses.get(id))
        self._show_detail()

    def show_odd(self, checks: Sequence[Finding]) -> None:
        """Offer the doctor, in one line, because of what is wrong in `checks`; none: do not."""
        names = ", ".join(check.name for check in checks[:2])
        more = f" and {len(checks) - 2} more" if checks[2:] else ""
        text = f"⚠ {names}{more}: see the doctor"
        self.doctor_button.setText(text)
        sentences = "\n".join(check.text for check in checks)
        set_wrapped_tip(self.doctor_button, f"{text}\n{sentences}")
        self.doctor_button.setVisible(bool(checks))

    def set_stale(self, since: float | None) -> None:
        """Show that the figures are as old as `since` (seconds since the epoch); None: current."""
        for row in (*self._rows.values(), *self.rail.marks.values()):
            row.set_stale(since)
        self.stale_note.setText("" if since is None else device_text.stale_text(since))
        self.detail.set_stale(since)

    def open_detail(self, id: str) -> None:
        """Open the dialog with the details of the device `id`."""
        self.detail.watch(id)
        self._show_detail()
        self.detail.show()
        self.detail.raise_()
        self.detail.activateWindow()
        self.detail_wanted.emit(id)

    @property
    def _gpus(self) -> int:
        kinds = [row.device.kind for row in self._rows.values() if row.device is not None]
        return kinds.count("gpu")

    def _is_cpu_beside_gpus(self, row: DeviceRow) -> bool:
        return row.device is not None and row.device.kind == "cpu" and self._gpus > 0

    def _is_always_compact(self, row: DeviceRow) -> bool:
        return self._gpus > MAX_DETAILED_GPUS or self._is_cpu_beside_gpus(row)

    def _choose_layouts(self) -> None:
        for row in self._rows.values():
            row.set_compact(self._is_short or self._is_always_compact(row))

    def _add_row(self, id: str) -> None:
        row = DeviceRow()
        row.opened.connect(self.open_detail)
        row.show_use(self._uses.get(id))
        self._rows[id] = row
        self._column.addWidget(row)
        self.rail.add(id).show_use(self._uses.get(id))

    def _detail_closed(self) -> None:
        self.detail.watch("")
        self.detail_wanted.emit("")

    def _show_detail(self) -> None:
        row = self._rows.get(self.detail.device_id)
        if row is not None and row.device is not None and self._snapshot is not None:
            self.detail.show_device(row.device, row.use, self._snapshot)
