"""The row of the form for the machine where a run starts; it is there while there are others."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from gui.widgets.entry_fields import Combo
from gui.widgets.plain_text import Label, set_wrapped_tip


class MachineChoice(Combo):
    """Lists this machine, those that are connected, and the chosen one while it is tried again."""

    chosen = Signal()
    """Another machine was chosen."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.label = Label("&Machine")
        self.label.setBuddy(self)
        self.setAccessibleName("Machine")
        set_wrapped_tip(
            self, "Where the run starts. A recipe or script is sent there; data are not."
        )
        self.addItem("This machine", "")
        self._told = ""
        self.wanted = ""
        """The machine to choose once it is offered, also while it is not connected yet, unless the
        user chooses before."""

        self.activated.connect(lambda _: self._forget_wanted())
        self.connections: Mapping[str, bool] = {}
        """What was offered last."""

        self.currentIndexChanged.connect(lambda _: self._tell())

    @property
    def machine(self) -> str:
        """The name of the chosen machine; empty: this one."""
        return str(self.currentData() or "")

    @property
    def has_choice(self) -> bool:
        """Whether there is another machine."""
        return self.count() > 1

    def offers(self, name: str) -> bool:
        """Whether a machine (empty: this one) can be chosen."""
        return self.findData(name) >= 0

    def choose(self, name: str) -> None:
        """Choose a machine, if it is listed; empty: this one."""
        self._forget_wanted()
        if (row := self.findData(name)) >= 0:
            self.setCurrentIndex(row)

    @property
    def problem(self) -> str:
        """Why nothing can start on the chosen machine now, in a sentence; empty: it can."""
        if not self.machine or self.connections.get(self.machine):
            return ""
        text = f"{self.machine} is not connected now."
        if self.isEnabled():
            text = f"{self.machine} is not connected now: wait, or choose another machine."
        return text

    def offer(self, connections: Mapping[str, bool]) -> None:
        """List the machines with a connection. The value: whether it stands now; while it is tried
        again, its machine stays only if it is chosen. One without a connection stays while there
        is no choice: a run goes on where it is, or nowhere."""
        self.connections = dict(connections)
        chosen = (self.machine, self.wanted)
        kept = [name for name, stands in connections.items() if stands or name in chosen]
        if self.machine and not self.isEnabled():
            kept = list(dict.fromkeys([*kept, self.machine]))
        if self.machine not in kept:
            self.setCurrentIndex(0)
        for row in reversed(range(1, self.count())):
            if self.itemData(row) not in kept:
                self.removeItem(row)
        for row, name in enumerate(kept, 1):
            if self.findData(name) < 0:
                self.insertItem(row, name, name)
            text = name if connections.get(name) else f"{name} (not connected)"
            self.setItemText(self.findData(name), text)
        if self.wanted in kept:
            self.choose(self.wanted)

    def _forget_wanted(self) -> None:
        self.wanted = ""

    def _tell(self) -> None:
        if self.machine != self._told:  # the row of the chosen one may have changed
            self._told = self.machine
            self.chosen.emit()
