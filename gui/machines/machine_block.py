"""One machine on the page Machines: its state, curves of its devices, and who uses their memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from PySide6.QtCore import QEvent, Signal
from PySide6.QtGui import QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QPushButton, QWidget

from engine.system.units import GIB
from engine.telemetry.history import DeviceHistory
from engine.telemetry.memory_attribution import MemoryUse
from engine.telemetry.snapshot import Snapshot
from gui.devices.device_tables import FactTable, Row, user_rows
from gui.machines import link_text
from gui.machines.devices_chart import DevicesChart
from gui.style.device_labels import DeviceLabel, device_labels
from gui.style.theme import theme_of
from gui.widgets.boxes import column_of, row_of
from gui.widgets.plain_text import Label

if TYPE_CHECKING:
    from engine.remote.connection import LinkStatus
    from engine.system.machines import RemoteMachine


_BESIDE = 900
"""Width from which on the table of users has room beside the curves, in logical pixels."""


class MachineBlock(QWidget):
    """Without a machine of the list, it is the block of this machine."""

    action_clicked = Signal()
    """The user wants to connect, to try again, or to answer a question."""

    disconnect_clicked = Signal()
    remove_clicked = Signal()
    copy_clicked = Signal()
    """The user wants the command that opens a shell there."""

    doctor_clicked = Signal()
    """The user wants to know whether that machine can train."""

    def __init__(self, machine: RemoteMachine | None) -> None:
        super().__init__()
        self.machine = machine
        self._status: LinkStatus | None = None
        self._histories: dict[str, DeviceHistory] = {}
        self._labels: dict[str, DeviceLabel] = {}
        self._gpus = 0
        self._mark = Label()
        name = machine.name if machine else "this machine"
        self.setAccessibleName(name)
        self._name = Label(name, objectName="ttl")
        self.facts = Label(objectName="note", wordWrap=True)
        self.sentence = Label(objectName="note", wordWrap=True)
        self.sentence.setProperty("tone", "warning")
        self.button, self.copy = QPushButton(), QPushButton("Copy SSH command")
        self.disconnect_button = QPushButton("Disconnect")
        self.doctor = QPushButton("Doctor…")
        self.remove = QPushButton("Remove…")
        self.button.clicked.connect(self.action_clicked)
        self.copy.clicked.connect(self.copy_clicked)
        self.disconnect_button.clicked.connect(self.disconnect_clicked)
        self.doctor.clicked.connect(self.doctor_clicked)
        self.remove.clicked.connect(self.remove_clicked)
        for button in self._buttons:
            button.setObjectName("low")
            if machine is None:  # what is shown before it has its place is a window for a moment
                button.hide()
        self.utilisation = DevicesChart("utilisation", "Utilisation", "%", top=100.0)
        self.memory = DevicesChart("memory_used", "Memory", "GiB", factor=1 / GIB)
        captions = ("Who", "GPU", "User", "Process")
        self.users = FactTable((*captions, "Memory"), "Who uses the memory")
        self._lay_out()
        self.show_status(None)

    def show_status(self, status: LinkStatus | None) -> None:
        """Show the state of the connection; None: it is not wanted, or this is this machine."""
        self._status = status
        self._show_state()

    def show_snapshot(self, snapshot: Snapshot, uses: Mapping[str, MemoryUse]) -> None:
        """Add the state of the devices to the curves; `uses` by UUID."""
        self._labels = device_labels(snapshot)
        for device in snapshot.devices:
            self._histories.setdefault(device.id, DeviceHistory()).add(snapshot.time, device)
        gpus = [device for device in snapshot.devices if device.kind == "gpu"]
        self._gpus = len(gpus)
        labels = {gpu.id: self._labels[gpu.id] for gpu in gpus} or self._labels
        sizes = [device.memory_total for device in gpus or snapshot.devices if device.memory_total]
        self.memory.set_highest(max(sizes) / GIB if sizes else None)
        for chart in (self.utilisation, self.memory):
            chart.show_histories(self._histories, labels)
        rows: list[Row] = []
        for gpu in gpus:
            if (use := uses.get(gpu.id)) is not None:
                shown = use._replace(reserved=0)  # of the driver itself, as on every GPU
                rows += [_short(gpu.label, row) for row in user_rows(shown)[0]]
        self.users.show_rows(rows)
        self._users_card.setVisible(bool(rows))
        self._details.setVisible(True)
        self._show_state()

    def changeEvent(self, event: QEvent) -> None:
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange:
            self._show_state()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Put the table beside the curves, or below them where there is no room."""
        super().resizeEvent(event)
        self._place_users()

    def _place_users(self) -> None:
        is_beside = self.width() >= _BESIDE
        place = (0, 2, 1, 1) if is_beside else (1, 0, 1, 2)
        self._grid.addWidget(self._users_card, *place)
        for column, share in enumerate((3, 3, 4 if is_beside else 0)):
            self._grid.setColumnStretch(column, share)

    @property
    def _buttons(self) -> tuple[QPushButton, ...]:
        return self.button, self.doctor, self.copy, self.disconnect_button, self.remove

    def _show_state(self) -> None:
        theme = theme_of(QGuiApplication.palette())
        if self.machine is None:
            self._mark.hide()
            self.facts.setText("the window and its runs")
            self.sentence.hide()
            return
        status = self._status
        self._mark.setPixmap(link_text.mark(status, theme))
        text = link_text.short_text(status, self._gpus)
        self._mark.setAccessibleName(text)
        parts = [self.machine.destination, text]
        if status is not None and status.hello is not None:
            version = f"Traindeck {status.hello.version}"
            parts += [status.hello.host, version]
        self.facts.setText(" · ".join(filter(None, parts)))
        self.sentence.setText(link_text.sentence(status))
        self.sentence.setVisible(bool(self.sentence.text()))
        action = link_text.button_text(status)
        self.button.setText(action)
        self.button.setVisible(bool(action))
        self.disconnect_button.setVisible(status is not None)
        is_known = status is not None and bool(self._histories)
        self._details.setVisible(is_known)
        is_connected = status is not None and status.state.value == "connected"
        self._details.setEnabled(is_connected)
        self.doctor.setVisible(is_connected)

    def _lay_out(self) -> None:
        top = row_of(self._mark, self._name, (self.facts, 1), *self._buttons, spacing=8)
        self._details = QWidget()
        self._grid = QGridLayout(self._details)
        self._grid.setContentsMargins(0, 0, 0, 0)
        self._grid.setSpacing(8)
        for column, chart in enumerate((self.utilisation, self.memory)):
            self._grid.addWidget(_card(chart), 0, column)
        heading = Label("WHO USES THE MEMORY", objectName="h")
        self._users_card = _card(heading, self.users)
        self._place_users()
        self._users_card.hide()
        self._details.hide()
        column_of(top, self.sentence, self._details, parent=self, margins=0, spacing=6)


def _card(*parts: QWidget) -> QFrame:
    card = QFrame()
    card.setObjectName("card")
    inside = column_of(*parts, parent=card, margins=(12, 8, 12, 8))
    if len(parts) > 1:
        inside.addStretch(1)
    return card


def _short(label: str, row: Row) -> Row:
    """Return a row of users with the label of its GPU, and without the parts of the memory."""
    who, process, user, memory, *_ = row
    return who, label, user, process, memory
