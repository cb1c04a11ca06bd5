"""The chip of a device in the run form: a check box with the name and colour of the device."""

from __future__ import annotations

from PySide6.QtCore import QPoint, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QCheckBox, QSizePolicy

from engine.telemetry.memory_attribution import MemoryUse
from engine.telemetry.snapshot import DeviceSnapshot, MigSlice
from gui.devices import device_text
from gui.style.device_labels import device_name
from gui.style.theme import Theme, theme_of
from gui.widgets.plain_text import set_wrapped_tip

HEIGHT = 24
_EDGE, _DOT, _GAP = 4, 7, 4
"""Logical pixels: edge to dot, size of the dot, dot to text."""

_LONGEST = 96
"""Maximum width of the text in logical pixels."""

_BUSY, _LOST = "⚠", "✕"


class DeviceChip(QCheckBox):
    """A check box; while it is ticked, it is filled and has a dot in the colour of the device."""

    def __init__(self, id: str, text: str, colour_index: int | None = None) -> None:
        """`id` is the UUID; `text` is shown until a snapshot contains the device. `colour_index`
        selects the colour of the dot, as in the list of devices; None: grey."""
        super().__init__()
        self.id = id
        self.name = text
        """Display name of the device."""

        self.model = ""
        """Model of the device, such as `H100 80GB`."""

        self.note = ""
        """Which processes use the device, in words; empty: none."""

        self.colour_index = colour_index
        self._short = text
        self._use: MemoryUse | None = None
        self._lost = False
        self._tip = [text] if text == id else [text, id]
        self.setAccessibleName(text)
        self._show_tip()
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setCursor(Qt.CursorShape.PointingHandCursor)

    def show_gpu(self, device: DeviceSnapshot, colour_index: int, why_not: str = "") -> None:
        """Show the whole GPU `device`; disabled if it is divided into MIG slices, or may not be
        used: `why_not` says why."""
        self.name, self.model = device_name(device), device_text.short_name(device)
        lost = device.lost is not None
        lost_name = f"{self.name} (lost)"
        text = f"{lost_name if lost else self.name}  {self.model}"
        self._show(device.label, text, colour_index, lost)
        divided = bool(device.slices)
        self._permit(why_not, not divided)
        self._tip = [self.accessibleName(), device.id]
        if divided:
            how = device_text.mig_text(device)
            self._tip.append(f"It is divided ({how}): choose one of its slices.")
            self.setChecked(False)
        elif why_not:
            self._tip.append(why_not)
        self._show_tip()

    def show_slice(
        self, device: DeviceSnapshot, slice: MigSlice, colour_index: int, why_not: str = ""
    ) -> None:
        """Show the MIG slice `slice` of the GPU `device`; disabled with the reason `why_not`."""
        slice_name = slice.name or "slice"
        self.name = f"{slice_name} of {device_name(device)}"
        self.model = slice_name
        lost = device.lost is not None
        self._show(f"{device.label}: {slice_name}", self.name, colour_index, lost)
        self._permit(why_not)
        self._tip = [self.name, slice.uuid, *([why_not] if why_not else [])]
        self._show_tip()

    def show_far(self, machine: str, device: DeviceSnapshot) -> None:
        """Show a device of another machine of the cluster."""
        self.name = f"{machine}: {device_name(device)}"
        self.model = "" if device.kind == "cpu" else device_text.short_name(device)
        self._show(self.name, f"{self.name}  {self.model}".rstrip(), None, device.lost is not None)
        self._tip = [self.accessibleName(), self.id]
        self._show_tip()

    def show_use(self, use: MemoryUse | None) -> None:
        """Show which processes use the device."""
        self._use = use
        text = ""
        if busy := device_text.busy_text(use):
            text = f"⚠ in use by {busy}"
        elif runs := _runs(use):
            text = f"in use by {runs}"
        if text == self.note:
            return
        self.note = text
        self._show_tip()
        self.updateGeometry()
        self.update()

    @property
    def is_busy(self) -> bool:
        """Whether processes other than our runs use the device."""
        return bool(device_text.busy_text(self._use))

    def warning(self) -> str:
        """Return a sentence why a run may be slow on the device, or empty."""
        if busy := device_text.busy_text(self._use):
            return f"{self.name} is in use by other processes ({busy})."
        if runs := _runs(self._use):
            return f"{self.name} is in use by {runs}."
        return ""

    def sizeHint(self) -> QSize:
        """Return the same size whether it is ticked or not."""
        return QSize(2 * _EDGE + _DOT + _GAP + self._text_width() + self._mark_width(), HEIGHT)

    def minimumSizeHint(self) -> QSize:
        return self.sizeHint()

    def hitButton(self, place: QPoint) -> bool:
        """Accept clicks on the whole chip."""
        return self.rect().contains(place)

    def paintEvent(self, event: QPaintEvent) -> None:
        theme = theme_of(self.palette())
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_frame(painter, theme)
        checked, enabled = self.isChecked(), self.isEnabled()
        text_colour = QColor(theme.text if checked and enabled else theme.muted)
        middle = QPointF(_EDGE + _DOT / 2, self.height() / 2)
        dot = QColor(theme.muted if self.colour_index is None else theme.curve(self.colour_index))
        painter.setPen(QPen(dot if enabled else QColor(theme.line), 1.4))
        painter.setBrush(dot if checked else Qt.BrushStyle.NoBrush)
        painter.drawEllipse(middle, _DOT / 2 - 0.4, _DOT / 2 - 0.4)
        painter.setFont(self._font(checked))
        painter.setPen(text_colour)
        left = _EDGE + _DOT + _GAP
        place = QRect(left, 0, self.width() - left - _EDGE, self.height())
        metrics = QFontMetrics(self._font(True))
        text = metrics.elidedText(self._short, Qt.TextElideMode.ElideMiddle, _LONGEST)
        painter.drawText(place, Qt.AlignmentFlag.AlignVCenter, text)
        if mark := self._mark():
            painter.setFont(self._mark_font())
            painter.setPen(QColor(theme.muted if self._lost else theme.warn))
            right = Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight
            painter.drawText(place, right, mark)
        painter.end()

    def _paint_frame(self, painter: QPainter, theme: Theme) -> None:
        checked = self.isChecked()
        is_highlighted = self.isEnabled() and (self.hasFocus() or self.underMouse())
        edge = QPen(
            QColor(theme.accent if is_highlighted else theme.muted if checked else theme.line), 1
        )
        if not self.isEnabled():
            edge.setStyle(Qt.PenStyle.DashLine)
        painter.setPen(edge)
        painter.setBrush(QColor(theme.card2) if checked else Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 6, 6)
        if self.hasFocus():
            painter.drawRoundedRect(QRectF(self.rect()).adjusted(1.5, 1.5, -1.5, -1.5), 5, 5)

    def _show(self, short: str, accessible_name: str, colour_index: int | None, lost: bool) -> None:
        if (short, colour_index, lost) != (self._short, self.colour_index, self._lost):
            self._short, self.colour_index, self._lost = short, colour_index, lost
            self.updateGeometry()
            self.update()
        if accessible_name != self.accessibleName():
            self.setAccessibleName(accessible_name)

    def _permit(self, why_not: str, is_possible: bool = True) -> None:
        """Let the user tick it unless there is a reason against it; a ticked one can be unticked,
        because the problem of the choice says what to do."""
        self.setEnabled(is_possible and (not why_not or self.isChecked()))

    def _show_tip(self) -> None:
        set_wrapped_tip(self, "\n".join(filter(None, (*self._tip, self.note))))

    def _mark(self) -> str:
        """Return the symbol of a lost or busy device, in addition to its colour."""
        return _LOST if self._lost else _BUSY if self.is_busy else ""

    def _text_width(self) -> int:
        return min(_LONGEST, QFontMetrics(self._font(True)).horizontalAdvance(self._short))

    def _mark_width(self) -> int:
        mark = self._mark()
        return QFontMetrics(self._mark_font()).horizontalAdvance(mark) + 2 if mark else 0

    def _mark_font(self) -> QFont:
        font = QFont(self.font())
        font.setPixelSize(10)
        return font

    def _font(self, bold: bool) -> QFont:
        font = QFont(self.font())
        font.setPixelSize(12)
        font.setWeight(QFont.Weight.DemiBold if bold else QFont.Weight.Normal)
        return font


def _runs(use: MemoryUse | None) -> str:
    ours = use.ours if use is not None else ()
    return ", ".join(dict.fromkeys(f"your run {each.worker.run}" for each in ours))
