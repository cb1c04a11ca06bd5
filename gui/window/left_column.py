"""The left column: devices, form, alarms and runs, one above the other."""

from __future__ import annotations

from PySide6.QtCore import QEvent
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from gui.devices.device_list import DeviceList

_MARGINS = (8, 8, 2, 6)
_SPACING = 6


class LeftColumn(QWidget):
    """Gives the rows of the devices one line each where three lines would hide some of them."""

    def __init__(self, devices: DeviceList, form: QWidget, alarms: QWidget, runs: QWidget) -> None:
        super().__init__()
        self.setObjectName("content")
        self._devices, self._others, self._runs = devices, (form, alarms), runs
        column = QVBoxLayout(self)
        column.setContentsMargins(*_MARGINS)
        column.setSpacing(_SPACING)
        column.addWidget(devices)
        column.addWidget(form)
        column.addWidget(alarms)  # the list below gives it room: nothing above moves
        column.addWidget(runs, 1)

    def event(self, event: QEvent) -> bool:
        """Find anew how high the devices may be when another part has changed."""
        if event.type() is QEvent.Type.LayoutRequest:
            self._fit_devices()
        return super().event(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Find anew how high the devices may be."""
        super().resizeEvent(event)
        self._fit_devices()

    def _fit_devices(self) -> None:
        _, top, _, bottom = _MARGINS
        taken = top + bottom + self._runs.minimumSizeHint().height() + _SPACING
        for part in self._others:
            if not part.isHidden():
                taken += part.sizeHint().height() + _SPACING
        self._devices.fit(self.height() - taken)
