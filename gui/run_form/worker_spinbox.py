"""The number of CPU workers in the run form."""

from __future__ import annotations

from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QSpinBox

from engine.spec.device_names import MOST_LOGICAL_CPUS
from gui.run_form.device_chip import HEIGHT

_TEXT_MARGIN = 5
"""Logical pixels: the number begins where the text of a chip begins."""


class WorkerSpinBox(QSpinBox):
    """A number in a panel that scrolls: the wheel is left to the panel."""

    def __init__(self) -> None:
        super().__init__()
        self.setObjectName("small")
        self.setFixedHeight(HEIGHT)
        self.setRange(1, MOST_LOGICAL_CPUS)
        self.setAccessibleName(self.tr("CPU workers"))
        # A style sheet's padding does not reach the text of a spin box (Qt 6.11).
        self.lineEdit().setTextMargins(_TEXT_MARGIN, 0, 0, 0)
        self.valueChanged.connect(self._show_unit)
        self._show_unit(self.value())

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Leave the number as it is."""
        event.ignore()

    def _show_unit(self, count: int) -> None:
        self.setSuffix(self.tr(" worker") if count == 1 else self.tr(" workers"))
