"""The cluster on the page Machines: its machines, each with its devices."""

from __future__ import annotations

from collections.abc import Iterator

from PySide6.QtWidgets import QFrame

from gui.bridge.cluster_devices import ClusterMember, ClusterStatus
from gui.devices import device_text
from gui.devices.device_tables import FactTable, Row
from gui.style.device_labels import device_name
from gui.widgets.boxes import STRETCH, column_of, row_of
from gui.widgets.plain_text import Label


class ClusterCard(QFrame):
    """Hidden while this machine is in no cluster."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("card")
        heading = Label("CLUSTER", objectName="h")
        self.note = Label(objectName="note")
        self.sentence = Label(objectName="note", wordWrap=True)
        self.sentence.setProperty("tone", "warning")
        about = ("Machine", "State", "Device", "Model")
        captions = (*about, "Utilisation", "Memory")
        self.table = FactTable(captions, "Machines of the cluster")
        top = row_of(heading, STRETCH, self.note)
        column_of(top, self.sentence, self.table, parent=self, margins=(12, 8, 12, 8))
        self.hide()

    def show_status(self, status: ClusterStatus) -> None:
        """Show what the cluster has answered."""
        self.note.setText(f"as of {device_text.clock(status.time)}, asked once a minute")
        problems = [status.problem, *map(_problem, status.machines)]
        self.sentence.setText(" ".join(filter(None, problems)))
        self.sentence.setVisible(bool(self.sentence.text()))
        rows = [row for each in status.machines for row in self._rows(each)]
        self.table.show_rows(rows)
        self.table.setVisible(bool(rows))
        self.setVisible(bool(status.time))

    def _rows(self, member: ClusterMember) -> Iterator[Row]:
        """Yield a row for each device; the first one also tells of the machine."""
        remarks = ["head" if member.is_head else "", "this machine" if member.is_here else ""]
        about = ", ".join(filter(None, remarks))
        name = f"{member.name} ({about})" if about else member.name
        silent = "silent" if member.alive else "lost"
        state = "answers" if member.alive and not member.problem else silent
        if not member.devices:
            yield name, state, "", "", "", ""
        for device in member.devices:
            yield (
                name,
                state,
                device_name(device),
                device.name,
                device_text.quantity(device.utilisation, "%"),
                device_text.of_total(device.memory_used, device.memory_total),
            )
            name = state = ""


def _problem(member: ClusterMember) -> str:
    """Return why the devices of a machine are not known; of a lost one, the sentence names it."""
    return f"{member.name}: {member.problem}" if member.alive and member.problem else member.problem
