"""The two layouts of a device row: detailed (three lines, and the slices) and compact (one
line)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from PySide6.QtCore import QRect, QRectF
from PySide6.QtGui import QColor

from engine.system.units import GIB
from engine.telemetry.memory_attribution import MemoryUse
from engine.telemetry.snapshot import DeviceSnapshot, MigSlice
from gui.devices import device_text
from gui.devices.memory_bar import Segment, filled, segments
from gui.devices.row_painter import RowPainter, Sample

SHOWN_SECONDS = 120.0
"""Time span of the sparkline."""

COMPACT_HEIGHT = 22
_DETAILED_HEIGHT, _SILENT_HEIGHT, _SLICE_HEIGHT = 52, 36, 15
_SECOND_LINE, _THIRD_LINE = 18, 33
"""Top of the second and the third line of the detailed layout."""

_MARGIN = 4
"""Left and right margin in pixels, for the focus ring."""

_LABEL_WIDTH = 32
"""Width of `CPU`, or of a number of two digits, at the beginning of a line."""


class RowContent(NamedTuple):
    """The data of a row."""

    device: DeviceSnapshot
    use: MemoryUse | None
    history: Sequence[Sample]


def detailed_height(device: DeviceSnapshot | None) -> int:
    """Return the height of the detailed layout in pixels."""
    if device is None:
        return _DETAILED_HEIGHT
    if device.lost is not None or device.asleep:
        return _SILENT_HEIGHT
    return _DETAILED_HEIGHT + _SLICE_HEIGHT * len(device.slices)


def paint_detailed(painter: RowPainter, width: int, content: RowContent) -> None:
    """Paint three lines: name and state, utilisation, memory; then the slices."""
    device, use, history = content
    right = width - _MARGIN
    state, text_colour = _state(painter, device)
    taken = painter.text(QRect(right - 150, 2, 150, 18), state, text_colour, right=True)
    start = (
        _MARGIN
        + 7
        + painter.text(QRect(_MARGIN, 1, width, 18), device.label, painter.label, bold=True)
    )
    text_width = right - start - taken - 8
    painter.text(
        QRect(start, 1, text_width, 18),
        device_text.short_name(device),
        painter.plain_colour,
        bold=True,
    )
    if device.lost is not None or device.asleep:
        why = device.lost or "Powered down and left alone."
        painter.text(QRect(_MARGIN, 18, right - _MARGIN, 16), why, painter.muted)
        return
    spark, captions, figures = 72, 28, 54
    bar = right - _MARGIN - captions - figures - spark - 6
    left = _MARGIN + captions
    memory = filled(device)
    painter.text(QRect(_MARGIN, _SECOND_LINE, captions, 16), "util", painter.muted)
    if device.slices and device_text.finite(device.utilisation) is None:
        text = device_text.mig_text(device)
        painter.text(QRect(left, _SECOND_LINE, bar + figures - 4, 16), text, painter.plain_colour)
    else:
        painter.bar(QRectF(left, _SECOND_LINE + 5, bar, 7), _part(device.utilisation))
        text = device_text.quantity(device.utilisation, "%")
        painter.text(
            QRect(left + bar, _SECOND_LINE, figures - 4, 16), text, painter.plain_colour, right=True
        )
    text_colour = painter.memory_colour(memory)
    painter.text(QRect(_MARGIN, _THIRD_LINE, captions, 16), "mem", painter.muted)
    painter.segmented_bar(QRectF(left, _THIRD_LINE + 5, bar, 7), segments(device, use), text_colour)
    painter.text(
        QRect(left + bar, _THIRD_LINE, figures - 4, 16),
        _short_gib(device.memory_used),
        text_colour,
        right=True,
    )
    busy = device_text.busy_text(use)
    area = QRectF(right - spark, 20, spark, 28)
    if busy:
        painter.text(QRect(right - spark, _THIRD_LINE, spark, 16), "busy", painter.warn, right=True)
        area.setHeight(16)
    painter.sparkline(area, history, SHOWN_SECONDS)
    for number, slice in enumerate(device.slices):
        _paint_slice(painter, width, _DETAILED_HEIGHT + number * _SLICE_HEIGHT - 3, slice)


def paint_compact(painter: RowPainter, width: int, content: RowContent) -> None:
    """Paint one line: number, utilisation, memory and state."""
    device, use, _ = content
    right, state = width - _MARGIN, 78
    painter.text(QRect(_MARGIN, 2, _LABEL_WIDTH, 18), device.label, painter.label, bold=True)
    left = _MARGIN + _LABEL_WIDTH
    if device.lost is not None or device.asleep:
        state_now, text_colour = _state(painter, device)
        text = f"{state_now}: {device.lost}" if device.lost else state_now
        painter.text(QRect(left, 3, right - left, 16), text, text_colour)
        return
    percent, amount = 42, 44
    bar = (right - left - percent - amount - state - 4) // 2
    if device.slices and device_text.finite(device.utilisation) is None:
        text = device_text.mig_text(device)
        painter.text(QRect(left, 3, bar + percent, 16), text, painter.plain_colour)
    else:
        painter.bar(QRectF(left, 8, bar, 6), _part(device.utilisation))
        text = device_text.quantity(device.utilisation, "%")
        painter.text(QRect(left + bar, 3, percent - 2, 16), text, painter.plain_colour, right=True)
    left += bar + percent + 4
    text_colour = painter.memory_colour(filled(device))
    painter.segmented_bar(QRectF(left, 8, bar, 6), segments(device, use), text_colour)
    painter.text(
        QRect(left + bar, 3, amount, 16), _short_gib(device.memory_used), text_colour, right=True
    )
    heat = device_text.quantity(device.temperature, "°")
    if device.kind == "cpu" and heat == device_text.UNKNOWN:
        heat = ""
    mark = "⚠ " if device_text.needs_a_look(device) else ""
    text_colour = painter.warn if mark else painter.muted
    taken = painter.text(QRect(right - state, 3, state, 16), mark + heat, text_colour, right=True)
    if device_text.busy_text(use):
        area = QRect(right - state + 6, 3, state - taken - 8, 16)
        painter.text(area, "busy", painter.warn)


def _paint_slice(painter: RowPainter, width: int, top: int, slice: MigSlice) -> None:
    right, left = width - _MARGIN, _MARGIN + 12
    caption = painter.text(QRect(left, top, 90, 16), slice.name or "slice", painter.muted)
    amount, figures = device_text.of_total(slice.memory_used, slice.memory_total, "G"), 92
    start = left + max(caption + 8, 60)
    used, total = device_text.finite(slice.memory_used), device_text.finite(slice.memory_total)
    part = used / total if used is not None and total and total > 0 else 0.0
    pieces = [Segment("ours", min(part, 1.0))] if part > 0 else []
    painter.segmented_bar(
        QRectF(start, top + 6, right - figures - start, 5), pieces, painter.plain_colour
    )
    painter.text(QRect(right - figures, top, figures, 16), amount, painter.plain_colour, right=True)


def _state(painter: RowPainter, device: DeviceSnapshot) -> tuple[str, QColor]:
    """Return the text and the colour at the right end of the first line."""
    if device.lost is not None:
        return f"✕ {device_text.lost_since(device)}", painter.muted
    if device.asleep:
        return "☾ " + "asleep", painter.muted
    figures = [
        text.replace(" / ", "/")
        for text in (device_text.temperature(device), device_text.power(device))
    ]
    if device.kind == "cpu":
        figures = [text for text in figures if text != device_text.UNKNOWN]
    elif figures == [device_text.UNKNOWN, device_text.UNKNOWN]:
        figures = [device_text.UNKNOWN]
    mark = "⚠ " if device_text.needs_a_look(device) else ""
    return mark + " · ".join(figures), painter.warn if mark else painter.muted


def _part(percent: float | None) -> float | None:
    value = device_text.finite(percent)
    return None if value is None else value / 100


def _short_gib(bytes: float | None) -> str:
    return (
        device_text.UNKNOWN if device_text.finite(bytes) is None else f"{(bytes or 0) / GIB:.1f} G"
    )
