"""The dialog Doctor: a list of checks with state, sentence and remedy."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QGuiApplication, QShowEvent
from PySide6.QtWidgets import (
    QDialog,
    QFrame,
    QHBoxLayout,
    QPushButton,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from engine.doctor.check import Check
from gui.bridge.doctor import Doctor
from gui.doctor.check_row import CheckRow
from gui.widgets.plain_text import Label

_SIZE = (680, 560)


class DoctorDialog(QDialog):
    """Shows the results as they come. Opened, it asks the driver and reads files; the GPUs are
    touched only by a click."""

    def __init__(self, doctor: Doctor, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._doctor = doctor
        self.rows: list[CheckRow] = []
        self.setWindowTitle(self.tr("Doctor"))
        self.resize(*_SIZE)
        about = Label(
            self.tr(
                "Whether this machine can train. Check all imports the frameworks and computes on "
                "each GPU for a minute or two: runs on them are slower meanwhile."
            )
        )
        about.setObjectName("note")
        about.setWordWrap(True)
        self.state = Label()
        self.state.setWordWrap(True)
        self.run_button = QPushButton(self.tr("Check &all"))
        self.again_button = QPushButton(self.tr("Check &without GPUs"))
        self.stop_button = QPushButton(self.tr("&Stop"))
        self.copy_button = QPushButton(self.tr("&Copy report"))
        self.copy_button.setToolTip(self.tr("For an issue: it has no names and no secrets."))
        close = QPushButton(self.tr("Close"))
        close.clicked.connect(self.close)
        close.setDefault(True)  # Enter must not begin to compute on the GPUs
        self.run_button.clicked.connect(lambda: doctor.examine(on_gpus=True))
        self.again_button.clicked.connect(lambda: doctor.examine(on_gpus=False))
        self.stop_button.clicked.connect(doctor.stop)
        self.copy_button.clicked.connect(self._copy)
        content = QWidget()
        self._column = QVBoxLayout(content)
        self._column.setContentsMargins(0, 0, 6, 0)
        self._column.setSpacing(8)
        self._column.addStretch(1)
        self._scroll = QScrollArea()
        self._scroll.setAccessibleName(self.tr("Checks"))
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setWidget(content)
        buttons = QHBoxLayout()
        for button in (self.run_button, self.again_button, self.stop_button):
            buttons.addWidget(button)
        buttons.addStretch(1)
        buttons.addWidget(self.copy_button)
        buttons.addWidget(close)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(18, 14, 18, 12)
        layout.setSpacing(10)
        layout.addWidget(about)
        layout.addWidget(self._scroll, 1)
        layout.addWidget(self.state)
        layout.addLayout(buttons)
        doctor.begun.connect(self._begin)
        doctor.checked.connect(self.add)
        doctor.progress.connect(self._show_progress)
        doctor.ended.connect(self._end)
        self._enable()

    @property
    def checks(self) -> list[Check]:
        """What is shown."""
        return [row.check for row in self.rows]

    def showEvent(self, event: QShowEvent) -> None:
        """Make the checks that touch no GPU, if none were made yet."""
        super().showEvent(event)
        if not self.rows:
            self._doctor.examine(on_gpus=False)

    def done(self, result: int) -> None:
        """A closed dialog computes nothing more."""
        self._doctor.stop()
        super().done(result)

    def add(self, check: Check) -> None:
        """Show one more result."""
        row = CheckRow(check)
        self.rows.append(row)
        self._column.insertWidget(self._column.count() - 1, row)

    def _begin(self) -> None:
        for row in self.rows:
            row.deleteLater()
        self.rows.clear()
        self.state.setText("")
        self._enable()

    def _show_progress(self, what: str) -> None:
        self.state.setText(self.tr("Now: {what} …").format(what=what))

    def _end(self, is_complete: bool) -> None:
        bad = sum(check.ok is False for check in self.checks)
        text = self.tr("Checked {count}: no problem was found.")
        if bad:
            text = self.tr("Checked {count}: problems were found in {bad}.")
        if not is_complete:
            text = self.tr("Stopped after {count}.")
        self.state.setText(text.format(count=len(self.rows), bad=bad))
        self._enable()

    def _enable(self) -> None:
        running = self._doctor.is_running
        for button in (self.run_button, self.again_button):
            button.setEnabled(not running)
        self.stop_button.setEnabled(running)
        self.copy_button.setEnabled(not running and bool(self.rows))

    def _copy(self) -> None:
        QGuiApplication.clipboard().setText(self._doctor.report(self.checks))
        self.state.setText(self.tr("The report is on the clipboard: read it before you send it."))
