"""The number of CPU workers in the run form."""

from __future__ import annotations

from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QSpinBox

from engine.spec.device_names import MOST_LOGICAL_CPUS
from gui.run_form.devices.device_chip import HEIGHT

_WIDTH = 98
"""Logical pixels, enough for `64 workers`."""

_TEXT_MARGIN = 5
"""Logical pixels: aligns the number with the text of a chip."""


class WorkerSpinBox(QSpinBox):
    """A number of workers; the mouse wheel does not change it but scrolls the form."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("small")
        self.setFixedHeight(HEIGHT)
        self.setMaximumWidth(_WIDTH)
        self.setRange(1, MOST_LOGICAL_CPUS)
        self.setAccessibleName("CPU workers")
        # A style sheet's padding does not reach the text of a spin box (Qt 6.11).
        self.lineEdit().setTextMargins(_TEXT_MARGIN, 0, 0, 0)
        self.valueChanged.connect(self._show_unit)
        self._show_unit(self.value())

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Leave the wheel to the scroll area around."""
        event.ignore()

    def _show_unit(self, count: int) -> None:
        self.setSuffix(" worker" if count == 1 else " workers")
