"""Builds the page Machines, and connects the other machines with it, their cards and dialogs."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QMessageBox

from engine.telemetry.memory_attribution import MemoryUse
from gui.bridge.cluster_devices import ClusterDevices
from gui.bridge.machines.machines import Machines
from gui.bridge.memory_owners import MemoryOwners
from gui.machines.add_dialog import AddMachineDialog
from gui.machines.machine_cards import MachineCards
from gui.machines.machines_page import MachinesPage
from gui.machines.question_dialog import QuestionDialog
from gui.window.main_window import MainWindow

if TYPE_CHECKING:
    from engine.remote.connection import LinkStatus


class MachinesController(QObject):
    """Opens a dialog where the user has to decide."""

    message = Signal(str)
    """A sentence for the status bar."""

    doctor_wanted = Signal(str)
    """Name of the machine that is to be examined."""

    def __init__(
        self,
        machines: Machines,
        cluster: ClusterDevices,
        owners: MemoryOwners,
        cards: MachineCards,
        window: MainWindow,
    ) -> None:
        super().__init__(window)
        self.page = page = MachinesPage()
        window.parts.pages["machines"].fill(page)
        self._machines, self._owners, self._window = machines, owners, window
        page.cluster.show_status(cluster.status)
        cluster.told.connect(page.cluster.show_status)
        owners.uses.connect(self._show_own)
        window.add_machine.triggered.connect(lambda: self.add())
        window.page_changed.connect(self._read_again)
        self.questions: dict[str, QuestionDialog] = {}
        machines.listed.connect(page.show_machines)
        machines.listed.connect(lambda listed: cards.show_machines(each.name for each in listed))
        machines.status_changed.connect(cards.show_status)
        machines.status_changed.connect(page.show_status)
        machines.status_changed.connect(self._end_old_question)
        machines.snapshot.connect(cards.show_snapshot)
        machines.snapshot.connect(page.show_snapshot)
        machines.question.connect(self._ask)
        machines.question_ended.connect(self._end_question)
        machines.failed.connect(self.message)
        cards.action_clicked.connect(self._act)
        cards.detail_wanted.connect(machines.set_detail)
        page.action_clicked.connect(self._act)
        page.disconnect_clicked.connect(machines.disconnect_from)
        page.remove_clicked.connect(self._ask_to_remove)
        page.copy_clicked.connect(self._copy)
        page.doctor_clicked.connect(self.doctor_wanted)
        page.add_clicked.connect(self.add)

    def add(self) -> AddMachineDialog:
        """Ask for a machine, add it, and connect to it."""
        dialog = AddMachineDialog(self._window)

        def add(name: str, destination: str, command: str) -> None:
            if problem := self._machines.add(name, destination, command):
                dialog.show_problem(problem)
                return
            dialog.close()
            self._machines.connect_to(name)

        dialog.wanted.connect(add)
        dialog.show()
        return dialog

    def _show_own(self, uses: dict[str, MemoryUse]) -> None:
        if self._owners.snapshot is not None:
            self.page.own.show_snapshot(self._owners.snapshot, uses)

    def _read_again(self, page: str) -> None:
        if page == "machines":
            self._machines.read_again()

    def _act(self, name: str) -> None:
        if dialog := self.questions.get(name):
            dialog.raise_()
            dialog.activateWindow()
        else:
            self._machines.connect_to(name)

    def _ask(self, name: str, prompt: str) -> None:
        self._end_question(name)
        dialog = self.questions[name] = QuestionDialog(name, prompt, self._window)
        dialog.answered.connect(lambda answer: self._machines.answer(name, answer))
        dialog.show()

    def _end_question(self, name: str) -> None:
        if dialog := self.questions.pop(name, None):
            dialog.end()

    def _end_old_question(self, name: str, status: LinkStatus | None) -> None:
        if status is None or status.state.value != "asking":
            self._end_question(name)

    def _ask_to_remove(self, name: str) -> None:
        box = QMessageBox(self._window)
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setIcon(QMessageBox.Icon.Question)
        box.setWindowTitle("Remove a machine")
        box.setTextFormat(Qt.TextFormat.PlainText)
        box.setText(f"Remove {name} from the list? Nothing changes there: its runs go on.")
        box.setStandardButtons(QMessageBox.StandardButton.Cancel)
        remove = box.addButton("Remove", QMessageBox.ButtonRole.AcceptRole)
        remove.clicked.connect(lambda: self._machines.remove(name))
        box.open()

    def _copy(self, name: str) -> None:
        for machine in self._machines.machines:
            if machine.name == name:
                command = shlex.join(["ssh", machine.destination])
                QGuiApplication.clipboard().setText(command)
                self.message.emit(f"Copied: {command}")
