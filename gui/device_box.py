"""One GPU, or a slice of one, to tick in the run form, with a word on who works there already."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QCheckBox, QLabel, QSizePolicy, QVBoxLayout, QWidget

from engine.attribution import MemoryUse
from engine.telemetry.snapshot import DeviceSnapshot, MigSlice
from gui import device_words as words
from gui.fields import wrapped

_INDENT = 20
"""Pixels from the left edge to the text of a box, and of a slice to its GPU."""


class DeviceBox(QWidget):
    """A box to tick, and a quiet line below it."""

    def __init__(self, id: str, text: str) -> None:
        """`id` is the UUID; `text` stands beside the box until the device is seen."""
        super().__init__()
        self.id = id
        self.name = text
        self.use: MemoryUse | None = None
        self._text = text
        self.box = QCheckBox()
        self.box.setToolTip(wrapped(id))
        self.setFocusProxy(self.box)
        self._note_text = ""
        self._note = QLabel()
        self._note.setObjectName("note")
        self._note.setTextFormat(Qt.TextFormat.PlainText)
        self._note.setContentsMargins(_INDENT, 0, 0, 0)
        self._note.hide()
        for widget in (self.box, self._note):
            widget.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(0)
        self._column.addWidget(self.box)
        self._column.addWidget(self._note)
        self._show_text(text)

    @property
    def note(self) -> str:
        """The line below, or empty."""
        return self._note_text

    def show_gpu(self, device: DeviceSnapshot) -> None:
        """Stand for the whole GPU `device`. One that is divided cannot be chosen as a whole."""
        self.name = f"GPU {device.label}"
        lost = " (lost)" if device.lost is not None else ""
        self._show_text(f"GPU {device.label}{lost}  {words.short_name(device)}")
        parts = len(device.slices)
        self.box.setEnabled(not parts)
        reason = f"It is divided ({words.divided(device)}): choose one of its slices." * bool(parts)
        self.box.setToolTip(wrapped(f"{device.name}\n{reason or device.id}"))
        if parts:
            self.box.setChecked(False)

    def show_slice(self, device: DeviceSnapshot, slice: MigSlice) -> None:
        """Stand for `slice` of the GPU `device`."""
        self.name = f"{slice.name or 'slice'} of GPU {device.label}"
        self._show_text(slice.name or "slice")
        self.box.setToolTip(wrapped(slice.uuid))
        self._column.setContentsMargins(_INDENT, 0, 0, 0)

    def show_use(self, use: MemoryUse | None) -> None:
        """Say who works there, if somebody does."""
        self.use = use
        text, tone = "", ""
        if busy := words.busy(use):
            text, tone = f"⚠ busy: {busy}", "warning"
        elif use is not None and use.ours:
            text = f"in use by {_runs(use)}"
        if text == self._note_text:
            return
        self._note_text = text
        self._note.setToolTip(wrapped(text))
        self._note.setVisible(bool(text))
        self._cut()
        self._note.setProperty("tone", tone)
        self._note.style().polish(self._note)
        self.box.setAccessibleDescription(text)

    def warning(self) -> str:
        """Why a run may fare badly there, in a sentence; empty if nothing is known against it."""
        if busy := words.busy(self.use):
            return f"{self.name} is busy with somebody else's work ({busy})."
        if self.use is not None and self.use.ours:
            return f"{self.name} is in use by {_runs(self.use)}."
        return ""

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Cut both lines to their new place."""
        super().resizeEvent(event)
        self._cut()

    def _show_text(self, text: str) -> None:
        self._text = text
        self.box.setAccessibleName(text)
        self._cut()

    def _cut(self) -> None:
        # Not what the layout has: that is nothing from a change until it is laid out again.
        room = self.width() - self._column.contentsMargins().left() - _INDENT - 2
        side = Qt.TextElideMode.ElideRight
        text = self.box.fontMetrics().elidedText(self._text, side, room)
        if self.box.text() != _literal(text):
            self.box.setText(_literal(text))
        self._note.setText(self._note.fontMetrics().elidedText(self._note_text, side, room))


def _runs(use: MemoryUse) -> str:
    return ", ".join(dict.fromkeys(f"your run {each.worker.run}" for each in use.ours))


def _literal(text: str) -> str:
    return text.replace("&", "&&")  # else it would underline the next letter
