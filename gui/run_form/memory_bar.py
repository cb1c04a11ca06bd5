"""The predicted memory of each device as a bar, divided by what holds it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QColor, QGuiApplication, QPainter, QPainterPath, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.planning.results import DeviceEstimate
from engine.system.units import GIB
from gui.style.theme import theme_of
from gui.widgets.plain_text import wrapped

_PARTS = ("weights", "gradients", "optimizer", "activations", "other")
_CURVES = {"weights": 0, "gradients": 1, "optimizer": 4, "activations": 2, "other": 6}
"""The colour of each part, by curve."""

_HEIGHT, _GAP = 8, 3
_LEAST, _MOST = 24, 96
"""Logical pixels: the width of one bar, and of all together."""


class MemoryBar(QWidget):
    """One bar for each device, side by side; the tooltip has the numbers."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._devices: Sequence[DeviceEstimate] = ()
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_devices(
        self, devices: Sequence[DeviceEstimate], display: Callable[[str], str] = str
    ) -> None:
        """Show the memory of `devices`; `display` returns the name of one."""
        self._devices = devices
        text = estimate_text(devices, display)
        self.setAccessibleName("Predicted memory")
        self.setAccessibleDescription(text)
        self.setToolTip(wrapped(text))
        self.setVisible(bool(devices))
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """Narrower bars for many devices."""
        count = len(self._devices)
        return QSize(min(_MOST, count * (_LEAST + _GAP) + (20 if count == 1 else 0)), _HEIGHT + 2)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the bars; what is more than the device has ends in the colour of a fault."""
        if not self._devices:
            return
        theme = theme_of(QGuiApplication.palette())
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        width = (self.width() + _GAP) / len(self._devices) - _GAP
        top = (self.height() - _HEIGHT) / 2
        for number, device in enumerate(self._devices):
            bar = QRectF(number * (width + _GAP), top, max(2.0, width), _HEIGHT)
            path = QPainterPath()
            path.addRoundedRect(bar, 3, 3)
            painter.save()
            painter.setClipPath(path)
            painter.fillRect(bar, QColor(theme.line))
            whole = max(device.available, device.total) or 1.0
            left = bar.left()
            for part in _PARTS:
                part_width = bar.width() * getattr(device, part) / whole
                ink = QColor(theme.curve(_CURVES[part]))
                painter.fillRect(QRectF(left, top, part_width, _HEIGHT), ink)
                left += part_width
            if 0 < device.available < device.total:
                limit = bar.left() + bar.width() * device.available / whole
                rest = QRectF(limit, top, bar.right() - limit, _HEIGHT)
                painter.fillRect(rest, QColor(theme.bad))
            painter.restore()
        painter.end()


def estimate_text(devices: Sequence[DeviceEstimate], display: Callable[[str], str] = str) -> str:
    """Return the numbers of a prediction, a line for each device."""
    names = {
        "weights": "weights",
        "gradients": "gradients",
        "optimizer": "optimizer",
        "activations": "activations",
        "other": "other",
    }
    lines = []
    for device in devices:
        parts = ", ".join(f"{names[part]} {_gib(getattr(device, part))}" for part in _PARTS)
        text = (
            f"{display(device.device)}: {parts}; together {_gib(device.total)} of "
            f"{_gib(device.available)} GiB"
        )
        lines.append(text)
    return "\n".join(lines)


def _gib(size: float) -> str:
    value = size / GIB
    return f"{value:.2f}" if value < 1 else f"{value:.1f}"
