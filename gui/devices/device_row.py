"""One row of the list of devices, with its keys and clicks."""

from __future__ import annotations

import math
from collections import deque

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QFocusEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.telemetry.memory_attribution import MemoryUse
from engine.telemetry.snapshot import DeviceSnapshot
from gui.devices import device_text
from gui.devices.row_layouts import (
    COMPACT_HEIGHT,
    SHOWN_SECONDS,
    RowContent,
    detailed_height,
    paint_compact,
    paint_detailed,
)
from gui.devices.row_painter import RowPainter, Sample
from gui.style.theme import theme_of
from gui.widgets.plain_text import set_wrapped_tip

_OPEN_KEYS = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space)


class DeviceRow(QWidget):
    """Paints one device, in grey when it is lost or when its figures are stale."""

    opened = Signal(str)
    """Id of the device whose details the user wants to see."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._colour_index: int | None = None
        self._compact = False
        self._stale_since: float | None = None
        self.device: DeviceSnapshot | None = None
        self.use: MemoryUse | None = None
        self._history: deque[Sample] = deque()
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.set_compact(False)

    @property
    def greyed(self) -> bool:
        """Whether the figures are stale, or the device is lost or asleep."""
        return self._stale_since is not None or (
            self.device is not None and (self.device.lost is not None or self.device.asleep)
        )

    def set_compact(self, compact: bool) -> None:
        """Choose the compact layout of one line, or the detailed one of three."""
        self._compact = compact
        self.setFixedHeight(COMPACT_HEIGHT if compact else detailed_height(self.device))
        self.update()

    def set_colour_index(self, index: int | None) -> None:
        """Paint the row in this colour of `Theme.curve`; None: in grey."""
        self._colour_index = index
        self.update()

    def set_stale(self, since: float | None) -> None:
        """Show that the figures are as old as `since` (seconds since the epoch); None: current."""
        self._stale_since = since
        self._update_texts()

    def show_device(self, device: DeviceSnapshot, time: float) -> None:
        """Show the state of the device at `time` (seconds since the epoch)."""
        self.device = device
        utilisation = device_text.finite(device.utilisation)
        if self._history and self._history[-1][0] > time:
            self._history.clear()  # the clock was set back
        self._history.append((time, math.nan if utilisation is None else utilisation / 100))
        while self._history[0][0] < time - SHOWN_SECONDS:
            self._history.popleft()
        self.set_compact(self._compact)
        self._update_texts()

    def show_use(self, use: MemoryUse | None) -> None:
        """Show who uses the memory."""
        self.use = use
        self._update_texts()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the row in the colours of the palette's theme."""
        if self.device is None:
            return
        qt_painter = QPainter(self)
        qt_painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter = RowPainter(qt_painter, theme_of(self.palette()), self.greyed, self._colour_index)
        paint = paint_compact if self._compact else paint_detailed
        paint(painter, self.width(), RowContent(self.device, self.use, self._history))
        if self.hasFocus():
            painter.focus_ring(QRectF(self.rect()))
        qt_painter.end()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter or Space opens the details; the arrows move the focus to the next row."""
        if event.key() in _OPEN_KEYS:
            self._open()
        elif event.key() == Qt.Key.Key_Down:
            self.focusNextChild()
        elif event.key() == Qt.Key.Key_Up:
            self.focusPreviousChild()
        else:
            super().keyPressEvent(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Accept the click, so that the list behind does not get it."""
        event.accept()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Open the details."""
        inside = self.rect().contains(event.position().toPoint())
        if event.button() is Qt.MouseButton.LeftButton and inside:
            self._open()

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Paint the focus ring."""
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Remove the focus ring."""
        super().focusOutEvent(event)
        self.update()

    def _open(self) -> None:
        if self.device is not None:
            self.opened.emit(self.device.id)

    def _update_texts(self) -> None:
        if self.device is not None:
            accessible_text = device_text.accessible_text(self.device, self.use, self._stale_since)
            if accessible_text != self.accessibleName():
                self.setAccessibleName(accessible_text)
            set_wrapped_tip(self, device_text.tooltip(self.device, self.use, self._stale_since))
        self.update()
