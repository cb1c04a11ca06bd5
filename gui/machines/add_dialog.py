"""The dialog that adds a machine to the list."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QCompleter, QDialog, QFormLayout, QLineEdit, QPushButton, QWidget

from gui.bridge.machines.machine_list import machine_problem, ssh_hosts
from gui.widgets.boxes import STRETCH, column_of, row_of
from gui.widgets.layouts.fit_height import fit_height
from gui.widgets.plain_text import Label

_WIDTH = 520
_COMMAND = "traindeck"


class AddMachineDialog(QDialog):
    """Says what is wrong while the user types; the machine is connected when it was added."""

    wanted = Signal(str, str, str)
    """Name, destination and command of a machine: see `Machines.add`."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle("Add a machine")
        self.setMinimumWidth(_WIDTH)
        about = Label(
            "Log in there once with ssh in a terminal, compare the fingerprint of its host "
            "key, and install Traindeck there. Keys, agents and jump hosts are settings of "
            "SSH; no password is stored.",
            wordWrap=True,
        )
        self.destination = QLineEdit()
        self.destination.setPlaceholderText("user@host, or an alias of ~/.ssh/config")
        completer = QCompleter(ssh_hosts(), self)
        completer.setCaseSensitivity(Qt.CaseSensitivity.CaseInsensitive)
        self.destination.setCompleter(completer)
        self.name = QLineEdit()
        self.name.setPlaceholderText("such as gpus: its runs are gpus:1, gpus:2, …")
        self.command = QLineEdit(_COMMAND)
        self.command.setToolTip("What starts Traindeck there, such as /home/me/env/bin/traindeck")
        form = QFormLayout()
        form.setFieldGrowthPolicy(QFormLayout.FieldGrowthPolicy.ExpandingFieldsGrow)
        form.addRow("&Destination", self.destination)
        form.addRow("&Name", self.name)
        form.addRow("&Command there", self.command)
        self.problem = Label(objectName="problem", wordWrap=True)
        cancel = QPushButton("Cancel")
        cancel.setAutoDefault(False)
        cancel.clicked.connect(self.reject)
        self.add = QPushButton("Add and connect")
        self.add.setObjectName("go")
        self.add.setDefault(True)
        self.add.clicked.connect(self._add)
        buttons = row_of(STRETCH, cancel, self.add)
        column_of(about, form, self.problem, buttons, parent=self, spacing=10)
        for field in (self.destination, self.name, self.command):
            field.textChanged.connect(self._check)
        self._check()

    def entered_name(self) -> str:
        """Return the name; that of the host if none was entered."""
        return self.name.text().strip() or self._proposed_name()

    def show_problem(self, sentence: str) -> None:
        """Say why the machine was not added."""
        self.problem.setText(sentence)
        self.problem.setVisible(bool(sentence))
        fit_height(self)

    def _proposed_name(self) -> str:
        host = self.destination.text().strip().rpartition("@")[2].removeprefix("ssh://")
        return host.partition(":")[0].partition(".")[0]

    def _check(self) -> None:
        problem = machine_problem(*self._entered())
        is_empty = not self.destination.text().strip()
        self.show_problem("" if is_empty else problem)
        self.add.setEnabled(not problem)

    def _entered(self) -> tuple[str, str, str]:
        return (
            self.entered_name(),
            self.destination.text().strip(),
            self.command.text().strip(),
        )

    def _add(self) -> None:
        self.wanted.emit(*self._entered())
