"""One device in the list of devices, painted: figures, bars and the last minute."""

from __future__ import annotations

import math
from collections import deque

from PySide6.QtCore import QPointF, QRect, QRectF, Qt
from PySide6.QtGui import QColor, QFont, QFontMetrics, QPainter, QPaintEvent, QPen, QPolygonF
from PySide6.QtWidgets import QSizePolicy, QWidget

from engine.telemetry.snapshot import DeviceSnapshot
from gui.theme import Theme, theme_of

SAMPLES = 60
"""Snapshots in the sparkline."""

_TALL, _FLAT = 68, 24
_GIB = 2**30
_UNKNOWN = "n/a"
_HOT = 80.0
"""Degrees Celsius from which on the temperature is amber."""

_AMBER, _RED = 0.80, 0.95
"""Parts of the memory in use."""


class DeviceRow(QWidget):
    """Paints one device; greyed when it is lost or when the figures are old."""

    def __init__(self, number: int, parent: QWidget | None = None) -> None:
        """`number` decides the colour: the same as in the plots."""
        super().__init__(parent)
        self._number = number
        self._flat = False
        self._stale = False
        self._device: DeviceSnapshot | None = None
        self._history: deque[float] = deque(maxlen=SAMPLES)
        self.setSizePolicy(QSizePolicy.Policy.Ignored, QSizePolicy.Policy.Fixed)
        self.set_flat(False)

    @property
    def device(self) -> DeviceSnapshot | None:
        """What is on display."""
        return self._device

    @property
    def greyed(self) -> bool:
        """Whether the figures are no news."""
        return self._stale or (self._device is not None and self._device.lost is not None)

    def set_flat(self, flat: bool) -> None:
        """One line, for machines with many GPUs, or three."""
        self._flat = flat
        self.setFixedHeight(_FLAT if flat else _TALL)
        self.update()

    def set_stale(self, stale: bool) -> None:
        """Grey the row while nothing new comes."""
        self._stale = stale
        self.update()

    def show_device(self, device: DeviceSnapshot) -> None:
        """Show the device as it is now."""
        self._device = device
        self._history.append(math.nan if device.utilisation is None else device.utilisation / 100)
        self.setAccessibleName(_spoken(device))
        self.setToolTip(_tip(device))
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the row in the colours of the palette's theme."""
        if self._device is None:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        look = _Look(painter, theme_of(self.palette()), self.greyed, self._number)
        (self._paint_flat if self._flat else self._paint_tall)(look, self._device)
        painter.end()

    def _paint_tall(self, look: _Look, device: DeviceSnapshot) -> None:
        width = self.width()
        figures = (_figure(device.temperature, "°C"), _figure(device.power, "W"))
        heat = " · ".join(text for text in figures if text != _UNKNOWN and device.lost is None)
        hot = device.temperature is not None and device.temperature >= _HOT
        used = look.text(
            QRect(width - 120, 2, 120, 18), heat, look.warn if hot else look.muted, right=True
        )
        left = look.text(QRect(0, 1, width, 18), device.label, look.label, bold=True)
        name = QRect(left + 7, 1, width - left - used - 16, 18)
        look.text(name, device.name, look.plain, bold=True)
        if device.lost is not None:
            look.text(QRect(0, 24, width, 16), device.lost, look.muted)
            return
        spark = 72
        bar = width - 28 - 56 - spark - 10
        for top, caption, part, figure in (
            (24, "util", _part(device.utilisation, 100.0), _figure(device.utilisation, "%")),
            (44, "mem", _part(device.memory_used, device.memory_total), _memory(device)),
        ):
            look.text(QRect(0, top, 28, 16), caption, look.muted)
            colour, ink = look.bar_colours(part if caption == "mem" else 0.0)
            look.bar(QRectF(28, top + 5, bar, 7), part, colour)
            look.text(QRect(28 + bar, top, 52, 16), figure, ink, right=True)
        look.sparkline(QRectF(width - spark, 26, spark, 36), list(self._history))

    def _paint_flat(self, look: _Look, device: DeviceSnapshot) -> None:
        width = self.width()
        look.text(QRect(0, 3, 32, 18), device.label, look.label, bold=True)
        if device.lost is not None:
            look.text(QRect(36, 4, width - 36, 16), device.lost, look.muted)
            return
        figures, heat = 46, 40
        bar = (width - 36 - 2 * figures - heat - 8) // 2
        left = 36
        memory = _part(device.memory_used, device.memory_total)
        colour, ink = look.bar_colours(memory)
        utilisation = _part(device.utilisation, 100.0)
        look.bar(QRectF(left, 9, bar, 6), utilisation, look.colour)
        left += bar
        percent = _figure(device.utilisation, "%")
        look.text(QRect(left, 4, figures - 6, 16), percent, look.plain, right=True)
        left += figures + 4
        look.bar(QRectF(left, 9, bar, 6), memory, colour)
        left += bar
        look.text(QRect(left, 4, figures, 16), _memory(device), ink, right=True)
        hot = device.temperature is not None and device.temperature >= _HOT
        temperature = _figure(device.temperature, "°")
        look.text(
            QRect(width - heat, 4, heat, 16), temperature, look.warn if hot else look.muted,
            right=True,
        )  # fmt: skip


class _Look:
    """A painter with the inks of one row."""

    def __init__(self, painter: QPainter, theme: Theme, greyed: bool, number: int) -> None:
        self._painter = painter
        self._theme = theme
        self._greyed = greyed
        self._big = QFont(painter.font())
        self._big.setWeight(QFont.Weight.DemiBold)
        self._small = QFont(painter.font())
        self._small.setPixelSize(11)
        self.muted = QColor(theme.muted)
        self.plain = QColor(theme.muted if greyed else theme.text)
        self.warn = QColor(theme.muted if greyed else theme.warn)
        self.colour = QColor(theme.other if greyed else theme.curve(number))
        self.label = QColor(theme.muted if greyed else theme.curve(number))

    def text(
        self, place: QRect, text: str, ink: QColor, *, bold: bool = False, right: bool = False
    ) -> int:
        """Write one line, cut to its place; the width that it took."""
        font = self._big if bold else self._small
        metrics = QFontMetrics(font)
        cut = metrics.elidedText(text, Qt.TextElideMode.ElideRight, place.width())
        side = Qt.AlignmentFlag.AlignRight if right else Qt.AlignmentFlag.AlignLeft
        self._painter.setFont(font)
        self._painter.setPen(ink)
        self._painter.drawText(place, side | Qt.AlignmentFlag.AlignVCenter, cut)
        return metrics.horizontalAdvance(cut)

    def bar_colours(self, memory: float | None) -> tuple[QColor, QColor]:
        """Colours of a bar and of its figure, by the part of the memory in use."""
        if self._greyed or memory is None or memory <= _AMBER:
            return self.colour, self.plain
        colour = QColor(self._theme.bad if memory > _RED else self._theme.warn)
        return colour, colour

    def bar(self, place: QRectF, part: float | None, colour: QColor) -> None:
        """A track, filled by `part` (0 to 1; None: nothing known, so only the track)."""
        radius = place.height() / 2
        self._painter.setPen(Qt.PenStyle.NoPen)
        self._painter.setBrush(QColor(self._theme.line))
        self._painter.drawRoundedRect(place, radius, radius)
        if part:
            filled = QRectF(place)
            filled.setWidth(max(place.height(), place.width() * min(part, 1.0)))
            self._painter.setBrush(colour)
            self._painter.drawRoundedRect(filled, radius, radius)

    def sparkline(self, place: QRectF, parts: list[float]) -> None:
        """The newest values at the right; a gap where a value is not known."""
        step = place.width() / (SAMPLES - 1)
        left = place.right() - step * (len(parts) - 1)
        shade = QColor(self.colour)
        shade.setAlpha(self._theme.raw)
        run: list[QPointF] = []
        for number, part in enumerate([*parts, math.nan]):
            if not math.isnan(part):
                height = min(max(part, 0.0), 1.0) * (place.height() - 1)
                run.append(QPointF(left + number * step, place.bottom() - height))
                continue
            if len(run) > 1:
                ends = [QPointF(end.x(), place.bottom()) for end in (run[-1], run[0])]
                self._painter.setPen(Qt.PenStyle.NoPen)
                self._painter.setBrush(shade)
                self._painter.drawPolygon(QPolygonF(run + ends))
                self._painter.setPen(QPen(self.colour, 1.2))
                self._painter.drawPolyline(QPolygonF(run))
            run = []
        self._painter.setPen(QPen(QColor(self._theme.line), 1))
        self._painter.drawLine(place.bottomLeft(), place.bottomRight())


def _part(value: float | None, total: float | None) -> float | None:
    return None if value is None or not total else value / total


def _figure(value: float | None, unit: str) -> str:
    return _UNKNOWN if value is None else f"{value:.0f} {unit}"


def _memory(device: DeviceSnapshot) -> str:
    return _UNKNOWN if device.memory_used is None else f"{device.memory_used / _GIB:.1f} G"


def _memory_of(device: DeviceSnapshot) -> str:
    if device.memory_used is None:
        return _UNKNOWN
    used = f"{device.memory_used / _GIB:.1f}"
    return (
        f"{used} of {device.memory_total / _GIB:.1f} GiB" if device.memory_total else f"{used} GiB"
    )


def _title(device: DeviceSnapshot) -> str:
    return f"GPU {device.label} {device.name}" if device.kind == "gpu" else device.name


def _spoken(device: DeviceSnapshot) -> str:
    if device.lost is not None:
        return f"{_title(device)}, lost: {device.lost}"
    utilisation = _figure(device.utilisation, "%")
    return f"{_title(device)}, utilisation {utilisation}, memory {_memory_of(device)}"


def _tip(device: DeviceSnapshot) -> str:
    lines = [_title(device), device.id] if device.kind == "gpu" else [_title(device)]
    if device.lost is not None:
        return "\n".join([*lines, device.lost])
    lines.append(f"Memory {_memory_of(device)}, by everybody on this machine")
    lines.append(f"Temperature {_figure(device.temperature, '°C')}")
    lines.append(f"Power {_figure(device.power, 'W')}")
    return "\n".join(lines)
