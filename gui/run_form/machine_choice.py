"""The row of the form for the machine where a run starts; it is there while there are others."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from gui.widgets.entry_fields import Combo
from gui.widgets.plain_text import Label, set_wrapped_tip


class MachineChoice(Combo):
    """Lists this machine, and those that are connected."""

    chosen = Signal()
    """Another machine was chosen."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.label = Label(self.tr("&Machine"))
        self.label.setBuddy(self)
        self.setAccessibleName(self.tr("Machine"))
        set_wrapped_tip(
            self, self.tr("Where the run starts. A recipe or script is sent there; data are not.")
        )
        self.addItem(self.tr("This machine"), "")
        self.currentIndexChanged.connect(lambda _: self.chosen.emit())

    @property
    def machine(self) -> str:
        """The name of the chosen machine; empty: this one."""
        return str(self.currentData())

    @property
    def has_choice(self) -> bool:
        """Whether there is another machine."""
        return self.count() > 1

    def offer(self, names: Sequence[str]) -> None:
        """List these machines; if the chosen one is not among them, this one is chosen."""
        for row in reversed(range(1, self.count())):
            if self.itemData(row) not in names:
                self.removeItem(row)
        for name in names:
            if self.findData(name) < 0:
                self.addItem(name, name)
