"""The row of the form for the environment whose Python trains a recipe."""

from __future__ import annotations

import time

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFileDialog, QMessageBox, QPushButton, QWidget

from engine.environments.creation import Stage, suggested_name
from engine.environments.registry import Environment
from gui.bridge.environments import EnvironmentMaker, choices, folder_of, framework_title
from gui.bridge.files.script_files import interpreter_in
from gui.bridge.machines.environments_there import EnvironmentsThere
from gui.run_form.environment.making_dialog import MakingDialog, stage_text
from gui.widgets.boxes import column_of, row_of
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.entry_fields import Combo, FieldNote, show_fault
from gui.widgets.plain_text import Label, plain_tip

_BROWSE, _MAKE = object(), object()


class EnvironmentRow(QWidget):
    """Lists the environments, remembers the choice for each framework, and makes new ones."""

    changed = Signal()

    message = Signal(str)
    """A sentence for the status bar."""

    def __init__(self, there: EnvironmentsThere, parent: QWidget | None = None) -> None:
        """`there`: those of the chosen machine."""
        super().__init__(parent)
        self._there = there
        self.label = Label("P&ython")
        self.combo = Combo()
        self.label.setBuddy(self.combo)
        self.combo.setAccessibleName("Environment")
        self.note = FieldNote()
        self.offer = QPushButton()
        self.offer.setVisible(False)
        self.progress = ElidedLabel(objectName="note")
        self.show_button = QPushButton("Show")
        self._making = QWidget()
        row_of((self.progress, 1), self.show_button, parent=self._making, margins=0)
        self._making.setVisible(False)
        column_of(
            self.combo, self.note, self.offer, self._making, parent=self, margins=0, spacing=2
        )
        self.maker = EnvironmentMaker(there.machines, self)
        self._dialog: MakingDialog | None = None
        self._begun = 0.0
        self._may_close = False
        self._framework = ""
        self._chosen: dict[str, str] = {}
        """What was chosen for each framework, by a person or by a spec."""

        self._listed: list[object] = []
        self.combo.activated.connect(self._activated)
        self.offer.clicked.connect(self.make)
        self.show_button.clicked.connect(self._show_dialog)
        self.maker.progressed.connect(self._progressed)
        self.maker.made.connect(self._made)
        self.maker.failed.connect(self._failed)
        self.maker.cancelled.connect(self._ended)
        there.listed.connect(self._list_there)

    @property
    def has_choice(self) -> bool:
        """Whether there is more than Traindeck's own Python, or something to tell."""
        has_others = sum(isinstance(each, str) for each in self._listed) > 1
        return has_others or bool(self.note.text()) or self.maker.is_making

    def interpreter(self) -> str:
        """Return the path of the chosen Python; empty: the one of Traindeck."""
        if self._framework in self._chosen:
            return self._chosen[self._framework]
        return self.default_python(self._framework)

    def default_python(self, framework: str) -> str:
        """See `EnvironmentsThere.default_for`."""
        return self._there.default_for(framework)

    def is_listed(self, interpreter: str) -> bool:
        """Whether the machine that is chosen has named this Python, or it is chosen."""
        return interpreter in self._listed or interpreter == self.interpreter()

    def set_machine(self, machine: str) -> None:
        """List the Pythons of another machine (empty: of this one), and forget what was chosen."""
        self._chosen.clear()
        self._there.follow(machine)
        self.refresh()

    def follow(self, framework: str) -> None:
        """Show the environment for `framework`: the one that was chosen, or its default."""
        if framework != self._framework:
            self._framework = framework
            self.refresh()

    def choose(self, framework: str, interpreter: str) -> None:
        """Show `framework` with a Python of a spec. Does not emit `changed`."""
        self._framework = framework
        self._chosen[framework] = interpreter
        self.refresh()

    def choose_known(self, framework: str, interpreter: str) -> None:
        """The same for a spec of an earlier day: an empty `interpreter` is the default of today."""
        self._chosen.pop(framework, None)
        if interpreter:
            self._chosen[framework] = interpreter
        self._framework = framework
        self.refresh()

    def refresh(self) -> None:
        """List the environments as they are now."""
        chosen, there = self.interpreter(), self._there
        found, problem = choices(there.machine, there.environments or (), chosen), there.problem
        self.note.set_note(f"⚠ {problem}" if problem else "")
        self._listed = [each.interpreter for each in found]
        self.combo.clear()
        for row, each in enumerate(found):
            self.combo.addItem(each.title)
            tip = plain_tip(each.interpreter or each.title)
            self.combo.setItemData(row, tip, Qt.ItemDataRole.ToolTipRole)
        self.combo.insertSeparator(self.combo.count())
        self._listed.append(None)
        if not there.machine:
            self.combo.addItem("Browse…")
            self._listed.append(_BROWSE)
        self.combo.addItem(f"Make one for {framework_title(self._framework)}…")
        self._listed.append(_MAKE)
        self._select(chosen)

    def set_problem(self, text: str) -> None:
        """Show why the Python cannot train; empty: it can."""
        self.note.set_problem(text)
        show_fault(self.combo, text)

    def set_offer(self, is_shown: bool) -> None:
        """Offer to make an environment in which TensorFlow uses GPUs, on a machine that has named
        those that it has."""
        self.offer.setText(f"Make an environment for {framework_title(self._framework)} on GPUs…")
        is_known = self._there.environments is not None
        self.offer.setVisible(is_shown and is_known and not self.maker.is_making)

    def make(self) -> None:
        """Open the dialog that makes an environment for the shown framework on the chosen
        machine."""
        there = self._there
        if not self.maker.is_making:
            if self._dialog is not None:
                self._dialog.deleteLater()
            name = suggested_name(self._framework, there.environments or ())
            self._dialog = MakingDialog(
                self.maker, self._framework, name, self.window(), there.machine
            )
            self._begun = time.monotonic()
        self._show_dialog()

    def asks_before_close(self) -> bool:
        """Ask whether the window is to close if that ends a creation; return whether it asks."""
        if self._may_close or not self.maker.is_making:
            return False
        box = QMessageBox(self.window())
        box.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        box.setIcon(QMessageBox.Icon.Question)
        box.setWindowTitle("Close Traindeck")
        box.setTextFormat(Qt.TextFormat.PlainText)
        text = (
            f"The environment {self._place()} is being made. If the window closes now, this "
            "ends, and what is there is deleted."
        )
        box.setText(text)
        box.setStandardButtons(QMessageBox.StandardButton.Cancel)
        close = box.addButton("End it and close", QMessageBox.ButtonRole.AcceptRole)
        close.clicked.connect(self._close_window)
        box.open()
        return True

    def _close_window(self) -> None:
        self._may_close = True
        self.window().close()

    def _show_dialog(self) -> None:
        if self._dialog is not None:
            self._dialog.show()
            self._dialog.raise_()
            self._dialog.activateWindow()

    def _select(self, interpreter: str) -> None:
        row = self._listed.index(interpreter)
        self.combo.setCurrentIndex(row)
        self.combo.setToolTip(plain_tip(interpreter or self.combo.currentText()))

    def _activated(self, row: int) -> None:
        chosen = self._listed[row]
        if isinstance(chosen, str):
            self._chosen[self._framework] = chosen
            self._select(chosen)
            self.changed.emit()
            return
        self._select(self.interpreter())
        if chosen is _MAKE:
            self.make()
        elif chosen is _BROWSE:
            title = "Choose a Python"
            path, _ = QFileDialog.getOpenFileName(self, title, folder_of(self.interpreter()))
            if path:
                self.choose(self._framework, interpreter_in(path))
                self.changed.emit()

    def _progressed(self, stage: Stage) -> None:
        self._making.setVisible(True)
        self.offer.setVisible(False)
        text = stage_text(stage, time.monotonic() - self._begun)
        self.progress.setText(f"{self._place()}: {text}")

    def _list_there(self) -> None:
        self.refresh()
        self.changed.emit()

    def _made(self, environment: Environment) -> None:
        self._ended()
        machine = self.maker.machine
        if machine == self._there.machine:
            self._chosen[self._framework] = environment.python
        self._there.ask_of(machine)
        self.refresh()
        said = [f"The environment {self._place()} is made."]
        wanted = self.maker.default_for
        if wanted and wanted not in environment.facts.versions:
            text = (
                f"It has no {framework_title(wanted)}, so it is not used for the runs of "
                f"{framework_title(wanted)}."
            )
            said.append(text)
        self.message.emit(" ".join([*said, *environment.facts.problems]))
        self.changed.emit()

    def _place(self) -> str:
        """Return what is made, such as `torch-gpu on gpus`."""
        name, machine = self.maker.name, self.maker.machine
        return f"{name} on {machine}" if machine else name

    def _failed(self, sentence: str) -> None:
        self._ended()
        self.message.emit(sentence)

    def _ended(self) -> None:
        self._making.setVisible(False)
        self.changed.emit()
