"""The dialog Doctor: a list of checks with state, sentence and remedy."""

from __future__ import annotations

from collections.abc import Mapping

from PySide6.QtGui import QGuiApplication, QShowEvent
from PySide6.QtWidgets import QDialog, QPushButton, QWidget

from engine.doctor.finding import Finding
from gui.bridge.doctor import Doctor
from gui.doctor.finding_row import FindingRow
from gui.run_form.machine_choice import MachineChoice
from gui.widgets.boxes import STRETCH, column_of, row_of, scrolled
from gui.widgets.plain_text import Label, set_wrapped_tip

_SIZE = (680, 560)


class DoctorDialog(QDialog):
    """Shows the results as they come. Opened, it asks the driver and reads files; the GPUs are
    touched only by a click."""

    def __init__(self, doctor: Doctor, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._doctor = doctor
        self.rows: list[FindingRow] = []
        self._must_begin = False
        """Whether another machine was chosen while one is examined."""

        self.resize(*_SIZE)
        self.about = Label(objectName="note", wordWrap=True)
        self.machine = MachineChoice()
        set_wrapped_tip(self.machine, "The machine that is examined")
        self._choice = QWidget()
        row_of(self.machine.label, (self.machine, 1), parent=self._choice, margins=0)
        self._choice.hide()
        self.state = Label(wordWrap=True)
        self.run_button = QPushButton("Check &all")
        self.again_button = QPushButton("Check &without GPUs")
        self.stop_button = QPushButton("&Stop")
        self.copy_button = QPushButton("&Copy report")
        self.copy_button.setToolTip("For an issue: it has no names and no secrets.")
        close = QPushButton("Close")
        close.clicked.connect(self.close)
        close.setDefault(True)  # Enter must not begin to compute on the GPUs
        self.run_button.clicked.connect(lambda: self._examine(on_gpus=True))
        self.again_button.clicked.connect(lambda: self._examine(on_gpus=False))
        self.stop_button.clicked.connect(doctor.stop)
        self.copy_button.clicked.connect(self._copy)
        content = QWidget()
        self._column = column_of(STRETCH, parent=content, margins=(0, 0, 6, 0), spacing=8)
        self._scroll = scrolled(content, sideways=False)
        self._scroll.setAccessibleName("Checks")
        buttons = row_of(
            self.run_button, self.again_button, self.stop_button, STRETCH, self.copy_button, close
        )
        column_of(
            self._choice,
            self.about,
            (self._scroll, 1),
            self.state,
            buttons,
            parent=self,
            margins=(18, 14, 18, 12),
            spacing=10,
        )
        doctor.begun.connect(self._begin)
        doctor.checked.connect(self.add)
        doctor.progress.connect(self._show_progress)
        doctor.ended.connect(self._end)
        doctor.failed.connect(self._show_failure)
        doctor.reported.connect(self._copy_report)
        self.machine.chosen.connect(self._machine_chosen)
        self._show_machine()
        self._enable()

    @property
    def checks(self) -> list[Finding]:
        """What is shown."""
        return [row.finding for row in self.rows]

    def showEvent(self, event: QShowEvent) -> None:
        """Make the checks that touch no GPU, if none were made yet."""
        super().showEvent(event)
        if not self.rows:
            self._examine(on_gpus=False)

    def offer_machines(self, connections: Mapping[str, bool]) -> None:
        """Offer other machines, by name: whether the connection stands now."""
        self.machine.offer(connections)
        self._choice.setVisible(self.machine.has_choice)
        self._enable()

    def done(self, result: int) -> None:
        """A closed dialog computes nothing more."""
        self._doctor.stop()
        super().done(result)

    def add(self, check: Finding) -> None:
        """Show one more result."""
        if self._must_begin:  # it is one of another machine
            return
        row = FindingRow(check, is_named=True)
        self.rows.append(row)
        self._column.insertWidget(self._column.count() - 1, row)

    def _examine(self, *, on_gpus: bool) -> None:
        if self.machine.problem:
            self.state.setText(self.machine.problem)
        else:
            self._doctor.examine(on_gpus=on_gpus, machine=self.machine.machine)

    def _machine_chosen(self) -> None:
        """Show nothing of the machine before, and examine the chosen one without its GPUs."""
        self._show_machine()
        self._clear()
        self._must_begin = self._doctor.is_running
        if self._must_begin:
            self._doctor.stop()
        elif self.isVisible():
            self._examine(on_gpus=False)

    def _show_machine(self) -> None:
        machine = self.machine.machine
        self.setWindowTitle(f"Doctor: {machine}" if machine else "Doctor")
        where = machine or "this machine"
        self.about.setText(
            f"Whether {where} can train. Check all imports the frameworks and computes on "
            "each GPU for a minute or two: runs on them are slower meanwhile."
        )

    def _begin(self) -> None:
        self._clear()
        self._enable()

    def _clear(self) -> None:
        for row in self.rows:
            row.deleteLater()
        self.rows.clear()
        self.state.setText("")

    def _show_progress(self, what: str) -> None:
        if not self._must_begin:
            self.state.setText(f"Now: {what} …")

    def _show_failure(self, sentence: str) -> None:
        self.state.setText(f"{self.state.text()} {sentence}".strip())

    def _end(self, is_complete: bool) -> None:
        if self._must_begin:
            self._must_begin = False
            self._clear()
            self._enable()
            if self.isVisible():
                self._examine(on_gpus=False)
            return
        bad = sum(check.level == "error" for check in self.checks)
        text = f"Checked {len(self.rows)}: no problem was found."
        if bad:
            text = f"Checked {len(self.rows)}: problems were found in {bad}."
        if not is_complete:
            text = f"Stopped after {len(self.rows)}."
        self.state.setText(text)
        self._enable()

    def _enable(self) -> None:
        running = self._doctor.is_running
        for button in (self.run_button, self.again_button):
            button.setEnabled(not running and not self.machine.problem)
        self.stop_button.setEnabled(running)
        self.copy_button.setEnabled(not running and bool(self.rows))

    def _copy(self) -> None:
        self._doctor.report(self.checks, self.machine.machine)

    def _copy_report(self, text: str) -> None:
        QGuiApplication.clipboard().setText(text)
        self.state.setText("The report is on the clipboard: read it before you send it.")
