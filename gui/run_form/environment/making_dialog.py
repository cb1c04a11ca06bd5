"""The dialog that makes an environment: what is installed, how far it is, what pip says."""

from __future__ import annotations

import shlex
import time

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import (
    QCheckBox,
    QDialog,
    QDialogButtonBox,
    QFormLayout,
    QLineEdit,
    QPlainTextEdit,
    QProgressBar,
    QPushButton,
    QWidget,
)

from engine.environments.creation import Stage
from engine.system.units import byte_size, short_duration
from gui.bridge.environments import EnvironmentMaker, framework_title, requirement_of
from gui.widgets.boxes import column_of
from gui.widgets.elided_label import ElidedLabel
from gui.widgets.entry_fields import FieldNote
from gui.widgets.plain_text import Label, plain_tip

_SIZE = (560, 420)
_LOG_MILLISECONDS = 500


class MakingDialog(QDialog):
    """Stays open beside the window, which goes on; closing it does not end the creation."""

    def __init__(
        self,
        maker: EnvironmentMaker,
        framework: str,
        name: str,
        parent: QWidget,
        machine: str = "",
    ) -> None:
        """`name`: a free one. `machine`: where it is made; empty: here."""
        super().__init__(parent)
        self._maker, self._framework, self._machine = maker, framework, machine
        self._begun = time.monotonic()
        self._has_begun = False
        title = framework_title(framework)
        text = f"Make an environment for {title}"
        if machine:
            text = f"Make an environment for {title} on {machine}"
        self.setWindowTitle(text)
        self.setModal(False)
        self.resize(*_SIZE)
        text = (
            "A virtual environment with what is named here and what a worker needs. It is "
            "made in the data folder with uv, or with pip; for GPUs it downloads several "
            "gigabytes."
        )
        if machine:
            text = (
                f"A virtual environment on {machine} with what is named here and what a "
                f"worker needs. {machine} makes it in its data folder with uv, or with pip, "
                "while it is connected; for GPUs it downloads several gigabytes."
            )
        about = Label(text, objectName="note", wordWrap=True)
        self.name = QLineEdit(name)
        self.requirements = QLineEdit(requirement_of(framework))
        text = f"Use it for all runs of {title}"
        if machine:
            text = f"Use it for all runs of {title} on {machine}"
        self.is_default = QCheckBox(text)
        self.is_default.setChecked(True)
        rows = QFormLayout()
        for label_text, field in (("&Name", self.name), ("&Install", self.requirements)):
            label = Label(label_text)
            label.setBuddy(field)
            rows.addRow(label, field)
        self.note = FieldNote()
        self.stage = ElidedLabel()
        self.bar = QProgressBar()
        self.bar.setTextVisible(False)
        self.bar.setAccessibleName("The environment is being made")
        self.log = QPlainTextEdit()
        self.log.setReadOnly(True)
        self.log.setAccessibleName("What pip says")
        self.log.setPlaceholderText("What pip says is shown here.")
        self.make_button = QPushButton("Make it")
        self.make_button.setObjectName("go")
        self.cancel_button = QPushButton("Cancel")
        self.cancel_button.setAutoDefault(False)
        self.cancel_button.setToolTip(plain_tip("End it, and delete what is there"))
        self.buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        roles = QDialogButtonBox.ButtonRole
        self.buttons.addButton(self.make_button, roles.ActionRole)
        self.buttons.addButton(self.cancel_button, roles.ActionRole)
        column_of(
            about,
            rows,
            self.is_default,
            self.note,
            self.stage,
            self.bar,
            (self.log, 1),
            self.buttons,
            parent=self,
        )
        self._log_timer = QTimer(self, interval=_LOG_MILLISECONDS)
        self._log_timer.timeout.connect(self._show_log)
        self.make_button.clicked.connect(self.make)
        self.cancel_button.clicked.connect(self.cancel)
        self.buttons.rejected.connect(self.close)
        maker.progressed.connect(self._show_stage)
        maker.made.connect(self._made)
        maker.failed.connect(self._failed)
        maker.cancelled.connect(self._was_cancelled)
        self._show_state()

    def make(self) -> None:
        """Begin to make it."""
        try:
            requirements = shlex.split(self.requirements.text())
        except ValueError as error:
            self.note.set_problem(f"This cannot be read: {error}.")
            return
        self.note.set_problem("")
        self.note.set_note("")
        self.log.clear()
        self.log.setFocus()  # not the next button, *Cancel*: the key or click may come twice
        self._begun, self._has_begun = time.monotonic(), True
        default = self._framework if self.is_default.isChecked() else ""
        self._maker.start(self.name.text().strip(), requirements, default, self._machine)
        self._show_state()

    def cancel(self) -> None:
        """End the creation, and delete what is there."""
        self.cancel_button.setEnabled(False)
        self.stage.setText("Ending, and deleting what is there …")
        self._maker.cancel()

    def _show_state(self) -> None:
        is_making = self._maker.is_making
        for widget in (self.name, self.requirements, self.is_default, self.make_button):
            widget.setEnabled(not is_making)
        self.cancel_button.setEnabled(is_making)
        self.make_button.setDefault(not is_making)
        self.bar.setVisible(is_making)
        self.bar.setRange(0, 0)
        self.stage.setVisible(is_making)
        if is_making:
            self._log_timer.start()
        else:
            self._log_timer.stop()
            self._show_log()

    def _show_stage(self, stage: Stage) -> None:
        if not self.cancel_button.isEnabled():
            return
        self.stage.setText(stage_text(stage, time.monotonic() - self._begun))
        self.stage.setToolTip(plain_tip(stage.doing))

    def _show_log(self) -> None:
        text = self._maker.log() if self._has_begun else ""  # not that of an earlier one
        if text and text != self.log.toPlainText():
            self.log.setPlainText(text)
            self.log.moveCursor(self.log.textCursor().MoveOperation.End)

    def _made(self) -> None:
        self._show_state()
        self.accept()

    def _failed(self, sentence: str) -> None:
        self._show_state()
        self.note.set_problem(sentence)
        self.name.setFocus()  # it was disabled, and lost it

    def _was_cancelled(self) -> None:
        self._show_state()
        self.log.clear()
        self.note.set_note("It was cancelled, and nothing of it is left.")


def stage_text(stage: Stage, seconds: float) -> str:
    """Return how far a creation is, such as `0:40 · 1.2 GiB · Downloading torch-2.13.0`; its end
    may be cut off."""
    return " · ".join([short_duration(seconds), byte_size(stage.bytes), stage.doing])
