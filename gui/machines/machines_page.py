"""The page Machines: this machine, below it its cluster, and the others."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QPushButton, QWidget

from engine.telemetry.memory_attribution import memory_uses
from engine.telemetry.snapshot import Snapshot
from gui.machines.cluster_card import ClusterCard
from gui.machines.machine_block import MachineBlock
from gui.widgets.boxes import column_of
from gui.widgets.plain_text import Label

if TYPE_CHECKING:
    from engine.remote.connection import LinkStatus
    from engine.system.machines import RemoteMachine


class MachinesPage(QWidget):
    """Offers what can be done with the list of machines."""

    add_clicked = Signal()
    action_clicked = Signal(str)
    """Name of the machine to connect to, or whose question is to be answered."""

    disconnect_clicked = Signal(str)
    remove_clicked = Signal(str)
    copy_clicked = Signal(str)
    """Name of the machine for which the user wants the command that opens a shell."""

    doctor_clicked = Signal(str)
    """Name of the machine that is to be examined."""

    def __init__(self) -> None:
        super().__init__()
        self.own = MachineBlock(None)
        self.cluster = ClusterCard()
        self.blocks: dict[str, MachineBlock] = {}
        self.add = QPushButton("Add a machine…")
        self.add.setObjectName("low")
        self.add.clicked.connect(self.add_clicked)
        self.empty = Label(
            "Another machine that you can log in to by SSH, and that has Traindeck, can be "
            "added: its devices and runs are then shown here, and runs can be started there.",
            objectName="note",
            wordWrap=True,
        )
        layout = column_of(self.own, self.cluster, parent=self, spacing=14)
        self._column = column_of(spacing=14)
        layout.addLayout(self._column)
        layout.addWidget(self.empty)
        layout.addWidget(self.add, 0, Qt.AlignmentFlag.AlignLeft)
        layout.addStretch(1)

    def show_machines(self, machines: Sequence[RemoteMachine]) -> None:
        """Show a block for each of these machines, in their order."""
        wanted = {machine.name: machine for machine in machines}
        for name, block in list(self.blocks.items()):
            if block.machine != wanted.get(name):
                del self.blocks[name]
                block.setParent(None)
                block.deleteLater()
        for place, machine in enumerate(machines):
            block = self.blocks.get(machine.name) or self._new_block(machine)
            if self._column.indexOf(block) != place:
                self._column.insertWidget(place, block)
        self.empty.setVisible(not wanted)

    def show_status(self, name: str, status: LinkStatus | None) -> None:
        """Show the state of the connection to a machine."""
        if block := self.blocks.get(name):
            block.show_status(status)

    def show_snapshot(self, name: str, snapshot: Snapshot) -> None:
        """Show the devices of another machine."""
        if block := self.blocks.get(name):
            block.show_snapshot(snapshot, memory_uses(snapshot.devices, []))

    def _new_block(self, machine: RemoteMachine) -> MachineBlock:
        name = machine.name
        block = self.blocks[name] = MachineBlock(machine)
        block.action_clicked.connect(partial(self.action_clicked.emit, name))
        block.disconnect_clicked.connect(partial(self.disconnect_clicked.emit, name))
        block.remove_clicked.connect(partial(self.remove_clicked.emit, name))
        block.copy_clicked.connect(partial(self.copy_clicked.emit, name))
        block.doctor_clicked.connect(partial(self.doctor_clicked.emit, name))
        return block
