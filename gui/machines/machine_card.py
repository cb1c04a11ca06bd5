"""The card of another machine in the left column: its state, and one line for each device."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, QTimer, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QFrame, QPushButton, QToolButton, QWidget

from engine.telemetry.memory_attribution import memory_uses
from engine.telemetry.snapshot import Snapshot
from gui.devices.device_row import DeviceRow
from gui.machines import link_text
from gui.style.device_labels import device_labels
from gui.style.theme import theme_of
from gui.widgets.boxes import column_of, row_of
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.plain_text import Label, plain_tip, set_wrapped_tip

if TYPE_CHECKING:
    from engine.remote.connection import LinkStatus
    from gui.devices.device_detail import DeviceDetail

_TICK_MS = 1000


class MachineCard(QFrame):
    """Folds to its first line."""

    action_clicked = Signal()
    """The user wants to connect, to try again, or to answer a question."""

    detail_wanted = Signal(str)
    """UUID of the GPU whose details are open; empty when the dialog has been closed."""

    folded = Signal(bool)
    """The user has folded or unfolded the card."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("card")
        self.setAccessibleName(f"Machine {name}")
        self.name = name
        self.status: LinkStatus | None = None
        self.rows: dict[str, DeviceRow] = {}
        self._snapshot: Snapshot | None = None
        self._is_folded = False
        self.fold_button = QToolButton()
        self.fold_button.setObjectName("quiet")
        self.fold_button.setAutoRaise(True)
        self.fold_button.clicked.connect(self._fold_clicked)
        self._mark = Label()
        self.heading = ElidedLabel(objectName="ttl")
        self.heading.setText(name)
        self.note = Label(objectName="note")
        self.button = QPushButton()
        self.button.setObjectName("low")
        self.button.clicked.connect(self.action_clicked)
        self.sentence = Label(objectName="note", wordWrap=True)
        self._lay_out()
        self._clock = QTimer(self, interval=_TICK_MS)
        self._clock.timeout.connect(self._show_state)
        self.set_folded(False)
        self.show_status(None)

    @property
    def is_folded(self) -> bool:
        """Whether only the first line is shown."""
        return self._is_folded

    def set_folded(self, folded: bool) -> None:
        """Show the first line only, or all."""
        self._is_folded = folded
        self.fold_button.setText("▸" if folded else "▾")
        text = f"Unfold {self.name}" if folded else f"Fold {self.name}"
        self.fold_button.setAccessibleName(text)
        self.fold_button.setToolTip(plain_tip(text))
        self._below.setVisible(not folded)

    def show_status(self, status: LinkStatus | None) -> None:
        """Show the state of the connection; None: it is not wanted."""
        self.status = status
        is_connected = status is not None and status.state.value == "connected"
        for row in self.rows.values():
            since = self._snapshot.time if self._snapshot and not is_connected else None
            row.set_stale(since)
        if status is None:
            self._forget_rows()
        self._show_state()

    def show_snapshot(self, snapshot: Snapshot) -> None:
        """Show the current state of the devices."""
        self._snapshot = snapshot
        labels = device_labels(snapshot)
        uses = memory_uses(snapshot.devices, [])
        has_gpus = any(device.kind == "gpu" for device in snapshot.devices)
        for device in snapshot.devices:
            row = self.rows.get(device.id) or self._add_row(device.id)
            row.show_device(device, snapshot.time)
            row.show_use(uses.get(device.id))
            row.set_stale(None)
            is_quiet = has_gpus and device.kind == "cpu"
            row.set_colour_index(None if is_quiet else labels[device.id].colour_index)
        self.detail.charts.add_snapshot(snapshot)
        self._show_detail()
        self._show_state()

    @cached_property
    def detail(self) -> DeviceDetail:
        """The dialog with the details of a device."""
        from gui.devices.device_detail import DeviceDetail

        made = DeviceDetail(self)
        made.finished.connect(self._detail_closed)
        return made

    def changeEvent(self, event: QEvent) -> None:
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange:
            self._show_state()

    def _show_state(self) -> None:
        devices = self._snapshot.devices if self._snapshot else ()
        gpus = sum(device.kind == "gpu" for device in devices)
        text = link_text.short_text(self.status, gpus)
        self._mark.setPixmap(link_text.mark(self.status, theme_of(QGuiApplication.palette())))
        self._mark.setAccessibleName(text)
        self.note.setText(text)
        button = link_text.button_text(self.status)
        self.button.setText(button)
        self.button.setAccessibleName(f"{button} {self.name}")
        self.button.setVisible(bool(button))
        why = link_text.sentence(self.status)
        self.sentence.setText(why)
        self.sentence.setVisible(bool(why))
        set_wrapped_tip(self.heading, f"{self.name}: {text}\n{why}".rstrip())
        is_waiting = self.status is not None and self.status.state.value == "waiting"
        if is_waiting != self._clock.isActive():
            self._clock.start() if is_waiting else self._clock.stop()

    def _add_row(self, id: str) -> DeviceRow:
        row = DeviceRow()
        row.set_compact(True)
        row.opened.connect(self._open_detail)
        self._rows_layout.addWidget(row)
        self.rows[id] = row
        return row

    def _forget_rows(self) -> None:
        for row in self.rows.values():
            row.setParent(None)
            row.deleteLater()
        self.rows.clear()
        self._snapshot = None

    def _open_detail(self, id: str) -> None:
        self.detail.watch(id)
        self._show_detail()
        self.detail.show()
        self.detail.raise_()
        self.detail.activateWindow()
        self.detail_wanted.emit(id)

    def _detail_closed(self) -> None:
        self.detail.watch("")
        self.detail_wanted.emit("")

    def _show_detail(self) -> None:
        row = self.rows.get(self.detail.device_id)
        if row is not None and row.device is not None and self._snapshot is not None:
            self.detail.show_device(row.device, row.use, self._snapshot)

    def _fold_clicked(self) -> None:
        self.set_folded(not self._is_folded)
        self.folded.emit(self._is_folded)

    def _lay_out(self) -> None:
        top = row_of(
            self.fold_button, self._mark, (self.heading, 1), self.note, self.button, spacing=5
        )
        self._below = QWidget()
        below = column_of(parent=self._below, margins=0, spacing=2)
        self.sentence.setContentsMargins(4, 0, 4, 0)
        below.addWidget(self.sentence)
        self._rows_layout = column_of(spacing=2)
        below.addLayout(self._rows_layout)
        column_of(top, self._below, parent=self, margins=(6, 4, 6, 5), spacing=2)
