"""The strip of the steps around a replayed one: loss and gradient norm, and which are equal."""

from __future__ import annotations

import math
from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QGuiApplication, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from engine.planning.results import RecordedStep
from gui.step.sample_table import figure
from gui.style.theme import Theme, theme_of
from gui.widgets.cell_painting import draw_text

_LABELS = 110
_ROW = 44
_MARKS = 20
_NUMBERS = 18
_PAD = 10


class StepStrip(QWidget):
    """A click on a step asks for its replay; the field of the page does so by keyboard."""

    step_chosen = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self._steps: Sequence[RecordedStep] = ()
        self._step = 0
        self.setMouseTracking(True)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def show_steps(self, steps: Sequence[RecordedStep], step: int) -> None:
        """Show recorded steps, of which `step` was replayed."""
        self._steps, self._step = steps, step
        self.setAccessibleName(self._description())
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        """A row for each series that was recorded, and one for the marks and for the numbers."""
        return QSize(400, len(self._rows()) * _ROW + _MARKS + _NUMBERS + 2 * _PAD)

    def minimumSizeHint(self) -> QSize:
        return QSize(200, self.sizeHint().height())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Say what was recorded of the step under the mouse."""
        if (step := self._step_at(event.position().x())) is not None:
            text = _text(step)
            if step.step != self._step:
                text += "\nA click looks into this step"
            QToolTip.showText(event.globalPosition().toPoint(), text, self)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Choose the step under the mouse, unless it is shown."""
        step = self._step_at(event.position().x())
        is_left = event.button() is Qt.MouseButton.LeftButton
        if step is not None and is_left and step.step != self._step:
            self.step_chosen.emit(step.step)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the rows, the marks, and the numbers of some steps."""
        if not self._steps:
            return
        theme = theme_of(QGuiApplication.palette())
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        at = self._x(self._step)
        ground = QColor(theme.selected)
        painter.fillRect(QRectF(at - 9, _PAD / 2, 18, self.height() - _PAD), ground)
        top = _PAD
        for title, values in self._rows():
            self._draw_row(painter, theme, top, title, values)
            top += _ROW
        self._draw_marks(painter, theme, top)
        self._draw_numbers(painter, theme, top + _MARKS)
        painter.end()

    def _rows(self) -> list[tuple[str, list[float]]]:
        rows = [("Loss", [each.loss for each in self._steps])]
        norms = [each.gradient_norm for each in self._steps]
        if any(norm is not None for norm in norms):
            rows.append(("Gradient norm", [math.nan if n is None else n for n in norms]))
        return rows

    def _draw_row(
        self, painter: QPainter, theme: Theme, top: int, title: str, values: Sequence[float]
    ) -> None:
        painter.setPen(QColor(theme.muted))
        draw_text(painter, QRect(_PAD, top, _LABELS, _ROW), title)
        finite = [value for value in values if math.isfinite(value)]
        low, high = min(finite, default=0.0), max(finite, default=1.0)
        before: QPointF | None = None
        for step, value in zip(self._steps, values, strict=True):
            x = self._x(step.step)
            if not math.isfinite(value):
                before = None
                if step.loss is value or not math.isfinite(step.loss):
                    painter.setPen(QColor(theme.bad))
                    painter.drawEllipse(QPointF(x, top + _ROW / 2), 3, 3)
                continue
            share = (value - low) / ((high - low) or 1.0)
            point = QPointF(x, top + 6 + (1 - share) * (_ROW - 14))
            painter.setPen(QPen(QColor(theme.accent), 1.4))
            if before is not None:
                painter.drawLine(before, point)
            painter.setBrush(QColor(theme.accent))
            painter.drawEllipse(point, 1.8, 1.8)
            painter.setBrush(Qt.BrushStyle.NoBrush)
            before = point

    def _draw_marks(self, painter: QPainter, theme: Theme, top: int) -> None:
        painter.setPen(QColor(theme.muted))
        draw_text(painter, QRect(_PAD, top, _LABELS, _MARKS), "Replayed")
        for step in self._steps:
            if step.is_equal is None:
                continue
            painter.setPen(QPen(QColor(theme.ok if step.is_equal else theme.bad), 1.6))
            x, y = self._x(step.step), top + _MARKS / 2
            if step.is_equal:
                painter.drawPolyline(
                    [QPointF(x - 3.5, y), QPointF(x - 1, y + 2.6), QPointF(x + 3.5, y - 3)]
                )
            else:
                painter.drawLine(QPointF(x - 3, y - 3), QPointF(x + 3, y + 3))
                painter.drawLine(QPointF(x - 3, y + 3), QPointF(x + 3, y - 3))

    def _draw_numbers(self, painter: QPainter, theme: Theme, top: int) -> None:
        for step in self._steps:
            is_shown = step.step == self._step
            if is_shown or (step.step % 5 == 0 and abs(step.step - self._step) > 1):
                painter.setPen(QColor(theme.accent if is_shown else theme.muted))
                rect = QRect(int(self._x(step.step)) - 40, top, 80, _NUMBERS)
                painter.drawText(rect, Qt.AlignmentFlag.AlignCenter, f"{step.step:,}")

    def _x(self, step: int) -> float:
        first, last = self._steps[0].step, self._steps[-1].step
        room = self.width() - _LABELS - 3 * _PAD
        return _LABELS + 2 * _PAD + room * (step - first) / max(1, last - first)

    def _step_at(self, x: float) -> RecordedStep | None:
        if not self._steps or x < _LABELS:
            return None
        return min(self._steps, key=lambda each: abs(self._x(each.step) - x))

    def _description(self) -> str:
        trained = [each for each in self._steps if each.is_equal is not None]
        equal = sum(bool(each.is_equal) for each in trained)
        return f"Steps around step {self._step:,}: {equal} of {len(trained)} shown are equal"


def _text(step: RecordedStep) -> str:
    parts = [f"Step {step.step:,}", f"loss {figure(step.loss)}"]
    if step.gradient_norm is not None:
        parts.append(f"gradient norm {figure(step.gradient_norm)}")
    if step.is_equal is not None:
        parts.append("equal bit for bit" if step.is_equal else "not equal")
    return "\n".join(parts)
