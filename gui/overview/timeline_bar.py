"""The history of a run as a bar: its phases, and marks for what stands out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontMetricsF,
    QGuiApplication,
    QHelpEvent,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QToolTip, QWidget

from engine.facts.history import History, Mark, MarkKind, Phase, Span
from engine.system import units
from gui.style.theme import Theme, theme_of
from gui.widgets.plain_text import plain_tip

_LABELS, _BAR, _AXIS = 18, 22, 18
_LABEL_WIDTH = 220
"""Most logical pixels of a label beside another one."""

_TOP = _LABELS + 2
_HEIGHT = _TOP + _BAR + 6 + _AXIS
_GAP = 16.0
"""Logical pixels of a time in which the run did not exist, however long it was."""

_LEAST_GAP = 5.0
"""Seconds; a shorter one is not told from the time in which a process starts."""

_NEAR = 6.0
_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
_DAY = 86_400

_PRIORITY = {
    MarkKind.FAILURE: 0,
    MarkKind.PAUSE: 1,
    MarkKind.BEST: 2,
    MarkKind.TROUBLE: 3,
    MarkKind.STOP: 4,
    MarkKind.RESUME: 5,
    MarkKind.END: 6,
    MarkKind.CHECKPOINT: 7,
}
"""Which label is written where two have no room."""


NO_NAMES: Mapping[str, str] = MappingProxyType({})


class _Block(NamedTuple):
    """Spans that follow each other without a gap."""

    begin: float
    end: float


class TimelineBar(QWidget):
    """Left and Right go from mark to mark; a screen reader reads each."""

    def __init__(self) -> None:
        super().__init__()
        self._spans: list[Span] = []
        self._marks: list[Mark] = []
        self._blocks: list[_Block] = []
        self._current = -1
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Timeline of the run")
        self.setMinimumHeight(_HEIGHT)
        self.setMaximumHeight(_HEIGHT)

    def show_history(
        self, history: History, now: float | None, device_names: Mapping[str, str] = NO_NAMES
    ) -> None:
        """Show what has happened; the present phase lasts until `now`.

        `device_names`: the display name of each device, by its id.
        """
        self._spans = history.spans(now)
        self._marks = [
            mark._replace(text=_with_names(mark.text, device_names)) for mark in history.marks
        ]
        self._blocks = _blocks(self._spans)
        self._current = min(self._current, len(self._marks) - 1)
        lines = [self._mark_text(mark) for mark in self._marks if mark.kind in _TOLD]
        self.setAccessibleDescription(". ".join(lines[-20:]))
        self.update()

    def sizeHint(self) -> QSize:
        """Two lines of text and the bar."""
        return QSize(300, _HEIGHT)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Go from mark to mark."""
        step = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()), 0)
        if not step or not self._marks:
            super().keyPressEvent(event)
            return
        self._current = max(0, min(len(self._marks) - 1, self._current + step))
        mark = self._marks[self._current]
        text = self._mark_text(mark)
        self.setAccessibleDescription(text)
        place = QPointF(self._x(mark.time), _TOP + _BAR).toPoint()
        QToolTip.showText(self.mapToGlobal(place), plain_tip(text), self)
        self.update()

    def event(self, event: QEvent) -> bool:
        """Tell what is under the pointer."""
        if isinstance(event, QHelpEvent):
            text = self.text_at(event.pos().x())
            QToolTip.showText(event.globalPos(), plain_tip(text), self)
            return True
        return super().event(event)

    def text_at(self, x: float) -> str:
        """Return what happened at a place of the bar, in lines."""
        marks = [mark for mark in self._marks if abs(self._x(mark.time) - x) <= _NEAR]
        lines = [self._mark_text(mark) for mark in marks[:8]]
        for span in self._spans:
            if self._x(span.begin) <= x <= self._x(span.end):
                seconds = units.steady_duration(span.end - span.begin)
                what = " · ".join(filter(None, [_phase_name(span.phase), span.text]))
                attempt = f"attempt {span.attempt}"
                begin, end = map(units.time_of_day, (span.begin, span.end))
                lines.append(f"{what} · {attempt} · {begin}–{end} · {seconds}")
        return "\n".join(lines)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Paint the phases, then the marks, then the labels that have room."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        theme = theme_of(QGuiApplication.palette())
        font = QFont(self.font())
        font.setPixelSize(11)
        painter.setFont(font)
        metrics = QFontMetricsF(font)
        for span in self._spans:
            self._paint_span(painter, span, theme, metrics)
        best = next((m for m in reversed(self._marks) if m.kind is MarkKind.BEST), None)
        for mark in self._marks:
            self._paint_mark(
                painter, mark, theme, is_whole=mark.kind not in _SILENT or mark is best
            )
        self._paint_labels(painter, theme, metrics)
        self._paint_axis(painter, theme, metrics)
        if self.hasFocus():
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.setPen(QColor(theme.accent))
            painter.drawRoundedRect(QRectF(0.5, _TOP - 2.5, self.width() - 1, _BAR + 5), 5, 5)
            if 0 <= self._current < len(self._marks):
                x = self._x(self._marks[self._current].time)
                painter.setPen(QPen(QColor(theme.text), 2))
                painter.drawLine(QPointF(x, _TOP - 3), QPointF(x, _TOP + _BAR + 3))

    def _paint_span(
        self, painter: QPainter, span: Span, theme: Theme, metrics: QFontMetricsF
    ) -> None:
        left, right = self._x(span.begin), self._x(span.end)
        area = QRectF(left, _TOP, max(2.0, right - left - 2), _BAR)
        fill = QColor(_phase_colour(span.phase, theme))
        fill.setAlpha(110 if theme.name == "dark" else 80)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(fill)
        painter.drawRoundedRect(area, 4, 4)
        text = span.text if span.phase is Phase.TRAINING else _phase_name(span.phase)
        if span.phase is Phase.PAUSED:
            text = f"{text} {_rough(span.end - span.begin)}"
        inside = area.adjusted(7, 0, -4, 0)
        if text and metrics.horizontalAdvance(text) <= inside.width():
            painter.setPen(QColor(theme.text))
            painter.drawText(inside, int(Qt.AlignmentFlag.AlignVCenter), text)

    def _paint_mark(self, painter: QPainter, mark: Mark, theme: Theme, *, is_whole: bool) -> None:
        x = self._x(mark.time)
        colour = QColor(_mark_colour(mark.kind, theme))
        if mark.kind is MarkKind.CHECKPOINT:
            painter.fillRect(QRectF(x - 0.5, _TOP + _BAR + 1, 1, 4), colour)
        elif not is_whole:
            painter.fillRect(QRectF(x - 0.5, _TOP - 4, 1, 4), colour)
        else:
            painter.fillRect(QRectF(x - 0.5, _TOP - 4, 1, _BAR + 6), colour)

    def _paint_labels(self, painter: QPainter, theme: Theme, metrics: QFontMetricsF) -> None:
        taken: list[tuple[float, float]] = []
        best = [mark for mark in self._marks if mark.kind is MarkKind.BEST]
        wanted = [mark for mark in self._marks if mark.kind not in _SILENT] + best[-1:]
        for mark in sorted(wanted, key=lambda each: (_PRIORITY[each.kind], -each.time)):
            text = f"★ {mark.text}" if mark.kind is MarkKind.BEST else mark.text
            most = _LABEL_WIDTH if taken else self.width()  # the most important one is read first
            text = metrics.elidedText(text, Qt.TextElideMode.ElideRight, most)
            width = metrics.horizontalAdvance(text)
            x = self._x(mark.time)
            left = max(0.0, min(x - 4, self.width() - width))
            if any(left < end + 10 and begin < left + width + 10 for begin, end in taken):
                continue
            taken.append((left, left + width))
            painter.setPen(QColor(_mark_colour(mark.kind, theme)))
            painter.drawText(
                QRectF(left, 0, width + 2, _LABELS - 3), int(Qt.AlignmentFlag.AlignVCenter), text
            )

    def _paint_axis(self, painter: QPainter, theme: Theme, metrics: QFontMetricsF) -> None:
        painter.setPen(QColor(theme.muted))
        right = -100.0
        for moment, has_date in self._ticks():
            form = "%d %b %H:%M" if has_date else _clock(self._scale())
            text = units.local_text(form, moment)
            width = metrics.horizontalAdvance(text)
            left = min(max(0.0, self._x(moment)), self.width() - width)
            if left < right + 12:
                continue
            right = left + width
            area = QRectF(left, _TOP + _BAR + 6, width + 2, _AXIS)
            painter.drawText(area, int(Qt.AlignmentFlag.AlignVCenter), text)

    def _ticks(self) -> list[tuple[float, bool]]:
        """Return the moments that the axis names, and whether with the date."""
        if not self._blocks:
            return []
        spans_days = self._blocks[-1].end - self._blocks[0].begin > _DAY
        step = next((s for s in _STEPS if s / max(self._scale(), 1e-9) >= 80), _DAY)
        found: list[tuple[float, bool]] = []
        for block in self._blocks:
            found.append((block.begin, spans_days))
            offset = units.utc_offset(block.begin)
            moment = (block.begin + offset) // step * step + step - offset
            count = 0
            while moment < block.end and count < 200:
                found.append((moment, False))
                moment, count = moment + step, count + 1
        return found

    def _scale(self) -> float:
        """Seconds of a logical pixel."""
        active = sum(block.end - block.begin for block in self._blocks)
        room = self.width() - _GAP * max(0, len(self._blocks) - 1)
        return max(active, 1.0) / max(room, 1.0)

    def _x(self, moment: float) -> float:
        x, scale = 0.0, self._scale()
        for block in self._blocks:
            if moment <= block.end or block is self._blocks[-1]:
                inside = min(max(moment, block.begin), block.end) - block.begin
                return x + inside / scale
            x += (block.end - block.begin) / scale + _GAP
        return x

    def _mark_text(self, mark: Mark) -> str:
        return f"{units.time_of_day(mark.time)} · {mark.text}"


_SILENT = (MarkKind.CHECKPOINT, MarkKind.BEST)
"""Marks without a label; of the best values only the last one has one."""

_TOLD = tuple(kind for kind in MarkKind if kind is not MarkKind.CHECKPOINT)


def _with_names(text: str, names: Mapping[str, str]) -> str:
    for device, name in names.items():
        text = text.replace(device, name)
    return text


def _blocks(spans: Sequence[Span]) -> list[_Block]:
    blocks: list[_Block] = []
    for span in spans:
        if blocks and span.begin - blocks[-1].end <= _LEAST_GAP:
            blocks[-1] = _Block(blocks[-1].begin, max(blocks[-1].end, span.end))
        else:
            blocks.append(_Block(span.begin, span.end))
    return blocks


def _phase_colour(phase: Phase, theme: Theme) -> str:
    return {
        Phase.WAITING: theme.other,
        Phase.STARTING: theme.other,
        Phase.TRAINING: theme.accent_bg,
        Phase.PAUSED: theme.warn,
        Phase.RESTARTING: theme.bad,
        Phase.STOPPING: theme.other,
    }[phase]


def _mark_colour(kind: MarkKind, theme: Theme) -> str:
    return {
        MarkKind.BEST: theme.warn,
        MarkKind.CHECKPOINT: theme.muted,
        MarkKind.PAUSE: theme.warn,
        MarkKind.FAILURE: theme.bad,
        MarkKind.TROUBLE: theme.warn,
        MarkKind.RESUME: theme.accent,
        MarkKind.STOP: theme.muted,
        MarkKind.END: theme.done,
    }[kind]


def _phase_name(phase: Phase) -> str:
    return {
        Phase.WAITING: "queued",
        Phase.STARTING: "starting",
        Phase.TRAINING: "training",
        Phase.PAUSED: "paused",
        Phase.RESTARTING: "restarting",
        Phase.STOPPING: "stopping",
    }[phase]


def _rough(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def _clock(scale: float) -> str:
    return "%H:%M:%S" if scale * 80 < 60 else "%H:%M"
