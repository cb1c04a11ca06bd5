"""The top of the run form: what it is filled in for, its presets, and the command line to copy."""

from __future__ import annotations

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QHBoxLayout, QLabel, QPushButton, QVBoxLayout, QWidget

from engine.spec import RunSpec
from gui.icon_button import IconButton
from gui.preset_menu import PresetMenu
from gui.run_goal import Continuation, Goal


class FormHeading(QWidget):
    """Says for what the form is filled in; from a run that goes on it leads back to a new one."""

    new_run_wanted = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = QLabel()
        self.title.setObjectName("h")
        self.presets = PresetMenu()
        self.presets.setObjectName("quiet")
        self.copy_button = IconButton(
            "copy", self.tr("Copy command"), self.tr("Copy the command line that does the same")
        )
        self.origin = QLabel()
        """From where a run goes on."""

        self.origin.setObjectName("note")
        self.origin.setWordWrap(True)
        self.leave_button = QPushButton(self.tr("New run instead"))
        self.leave_button.setObjectName("quiet")
        self.leave_button.clicked.connect(self.new_run_wanted)
        top = QHBoxLayout()
        top.setSpacing(2)
        top.addWidget(self.title, 1)
        for widget in (self.leave_button, self.presets, self.copy_button):
            top.addWidget(widget)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        layout.addLayout(top)
        layout.addWidget(self.origin)

    def show_goal(self, goal: Goal) -> None:
        """Say what the settings are for."""
        continues = isinstance(goal, Continuation)
        self.title.setText(goal.heading)
        self.origin.setText(goal.origin if isinstance(goal, Continuation) else "")
        self.origin.setVisible(continues)
        self.leave_button.setVisible(continues)
        self.presets.setVisible(not continues)

    def set_spec(self, spec: RunSpec | None) -> None:
        """What there is to keep or to copy; None while something is wrong with it."""
        self.presets.set_spec(spec)
        self.copy_button.setEnabled(spec is not None)
