"""The left column: devices, other machines, form, alarms and runs, one above the other."""

from __future__ import annotations

from PySide6.QtCore import QEvent
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from gui.devices.device_list import DeviceList

_MARGINS = (8, 8, 2, 6)
_SPACING = 6


class LeftColumn(QWidget):
    """Gives the devices one line each where three lines would hide some of them; the cards of other
    machines get the room that this leaves."""

    def __init__(
        self,
        devices: DeviceList,
        machines: QWidget,
        form: QWidget,
        alarms: QWidget,
        runs: QWidget,
    ) -> None:
        super().__init__()
        self.setObjectName("content")
        self._devices, self._machines = devices, machines
        self._others, self._runs = (form, alarms), runs
        column = QVBoxLayout(self)
        column.setContentsMargins(*_MARGINS)
        column.setSpacing(_SPACING)
        column.addWidget(devices)
        column.addWidget(machines)
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
        room = self.height() - top - bottom - self._runs.minimumSizeHint().height() - _SPACING
        for part in self._others:
            if not part.isHidden():
                room -= part.sizeHint().height() + _SPACING
        if self._machines.isHidden():
            self._devices.fit(room)
            return
        least = self._machines.minimumSizeHint().height() + _SPACING
        needed = self._devices.fit(room - least)
        self._machines.setMaximumHeight(max(least, room - needed) - _SPACING)
