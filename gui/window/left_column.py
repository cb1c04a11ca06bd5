"""The left column: devices, other machines, form, alarms and runs, one above the other."""

from __future__ import annotations

from PySide6.QtCore import QEvent
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from gui.devices.device_list import DeviceList
from gui.run_list.run_list_panel import RunListPanel

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
        run_list: RunListPanel,
    ) -> None:
        """`runs` is the card of `run_list`."""
        super().__init__()
        self.setObjectName("content")
        self._devices, self._machines = devices, machines
        self._form, self._alarms, self._runs, self._run_list = form, alarms, runs, run_list
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
        """An alarm changes nothing above the list of runs, which gives it room."""
        _, top, _, bottom = _MARGINS
        room = self.height() - top - bottom - self._form.sizeHint().height() - _SPACING
        room -= self._runs.minimumSizeHint().height() + self._run_list.given_room + _SPACING
        least = 0
        if not self._machines.isHidden():
            least = self._machines.minimumSizeHint().height() + _SPACING
        needed = self._devices.fit(room - least)
        is_alarmed = not self._alarms.isHidden()
        alarms = self._alarms.sizeHint().height() + _SPACING if is_alarmed else 0
        has_room = needed + least <= room
        self._run_list.give_room(max(0, needed + least + alarms - room) if has_room else 0)
        if least:
            self._machines.setMaximumHeight(max(least, room - needed - alarms) - _SPACING)
