"""The devices as small bars with their numbers, for the narrow rail beside the content."""

from __future__ import annotations

from PySide6.QtCore import QRect, QRectF, QSize, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.telemetry.memory_attribution import MemoryUse
from engine.telemetry.snapshot import DeviceSnapshot
from gui.devices import device_text
from gui.devices.device_row import DeviceRow
from gui.devices.memory_bar import filled
from gui.devices.row_painter import RowPainter
from gui.style.theme import theme_of
from gui.widgets.boxes import column_of

_HEIGHT, _MIN_HEIGHT = 44, 16
_LABEL_WIDTH = 16
_BAR_WIDTH, _BAR_GAP = 7, 2
"""Logical pixels."""


class DeviceMark(DeviceRow):
    """One device: its number, a bar for its utilisation and one for its memory."""

    def set_compact(self, compact: bool) -> None:
        """Change nothing: a mark has one layout, and takes the height that there is."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Preferred)

    def sizeHint(self) -> QSize:
        """The height where there is room."""
        return QSize(0, _HEIGHT)

    def minimumSizeHint(self) -> QSize:
        """The height beside many other devices."""
        return QSize(0, _MIN_HEIGHT)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint number and bars."""
        if self.device is None:
            return
        qt_painter = QPainter(self)
        qt_painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter = RowPainter(qt_painter, theme_of(self.palette()), self.greyed, self._colour_index)
        bars = 2 * _BAR_WIDTH + _BAR_GAP
        left = (self.width() - _LABEL_WIDTH - bars) // 2
        label = self.device.label if self.device.kind == "gpu" else self.device.label[:1]
        painter.text(QRect(left, 0, _LABEL_WIDTH, self.height()), label, painter.label, bold=True)
        load = device_text.finite(self.device.utilisation)
        parts = (None if load is None else load / 100, filled(self.device))
        gap = 3 if self.height() > _MIN_HEIGHT + 4 else 1
        for number, part in enumerate(parts):
            x = left + _LABEL_WIDTH + number * (_BAR_WIDTH + _BAR_GAP)
            area = QRectF(x, gap, _BAR_WIDTH, self.height() - 2 * gap)
            painter.upright_bar(area, part, faint=number == 1)
        if self.hasFocus():
            painter.focus_ring(QRectF(self.rect()))
        qt_painter.end()


class DeviceRail(QWidget):
    """One mark per GPU; without a GPU, one for the CPU."""

    opened = Signal()
    """The user wants to see more of the devices."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName("Devices")
        self.marks: dict[str, DeviceMark] = {}
        self._column = column_of(parent=self, margins=(2, 0, 2, 0), spacing=0)

    def add(self, id: str) -> DeviceMark:
        """Return a new mark for the device `id`."""
        mark = self.marks[id] = DeviceMark()
        mark.opened.connect(lambda _: self.opened.emit())
        self._column.addWidget(mark)
        return mark

    def show_device(
        self, device: DeviceSnapshot, time: float, colour_index: int | None, has_gpus: bool
    ) -> None:
        """Show the state of a device at `time` (seconds since the epoch)."""
        mark = self.marks[device.id]
        mark.show_device(device, time)
        mark.set_colour_index(colour_index)
        mark.setVisible(device.kind == "gpu" or not has_gpus)

    def show_use(self, id: str, use: MemoryUse | None) -> None:
        """Show who uses the memory of the device `id`."""
        self.marks[id].show_use(use)
