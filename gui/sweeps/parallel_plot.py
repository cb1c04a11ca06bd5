"""Parallel coordinates: a line for each trial over an axis for each setting and the result."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QColor,
    QFocusEvent,
    QGuiApplication,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QPolygonF,
)
from PySide6.QtWidgets import QSizePolicy, QToolTip, QWidget

from engine.sweeps.study import TrialResult
from engine.sweeps.sweep import Sweep
from gui.style.theme import Theme, theme_of
from gui.sweeps.axes import Axis, axes_of
from gui.sweeps.trial_texts import describe
from gui.widgets.plain_text import plain_tip

_TOP, _BOTTOM, _LEFT, _RIGHT = 30, 14, 56, 70
"""Logical pixels around the axes: titles, and the labels at the sides."""

_NEAR = 7.0
"""Logical pixels between the pointer and a line or an axis that it points to."""

_DRAG = 4
_BRUSH_WIDTH = 12
_LABEL_GAP = 6
_OPACITIES = ((60, 210), (300, 130), (math.inf, 70))
"""Up to so many lines, each has this opacity (0 to 255): more lines lie over each other."""

_MOST_THICK = 100
"""Lines that are drawn thick: that takes ten times as long as lines of one pixel of the screen."""

Places = npt.NDArray[np.float64]


class ParallelPlot(QWidget):
    """Lines are painted once into a picture; what follows the mouse is painted over it."""

    opened = Signal(str)
    """Id of the run of a trial that was clicked."""

    pointed = Signal(int)
    """Number of the trial under the pointer; -1: none."""

    brushed = Signal(object)
    """frozenset of the numbers of the trials that pass all brushes; None: there is no brush."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._sweep: Sweep | None = None
        self._trials: Sequence[TrialResult] = ()
        self._axes: list[Axis] = []
        self._places: Places = np.empty((0, 0))
        self._brushes: dict[str, tuple[float, float]] = {}
        """By the name of the axis: the places between which a line must pass."""

        self._pointed = -1
        """Place of a trial in `_trials`; -1: none."""

        self._axis = 0
        """The axis along which the keys go."""

        self._pressed: tuple[int, float, float] | None = None
        """Axis (-1: none), place and y of the pressed mouse."""

        self._anchor: float | None = None
        self._picture: QPixmap | None = None
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMinimumSize(320, 150)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName("Parallel coordinates of the trials")
        self.setAccessibleDescription(
            "Left and Right choose an axis, Up and Down go from trial to trial along it, with "
            "Shift they filter, Return opens the run, Escape removes the filters"
        )

    def sizeHint(self) -> QSize:
        """The size on a page of 1280 pixels."""
        return QSize(900, 220)

    def show_trials(self, sweep: Sweep | None, trials: Sequence[TrialResult]) -> None:
        """Draw these trials; the brushes of axes that are still there stay."""
        pointed = self._trials[self._pointed].number if self._pointed >= 0 else -1
        had_brush = bool(self._brushes)
        self._sweep, self._trials = sweep, trials
        self._axes = axes_of(sweep, trials) if sweep else []
        rows = [self._row(each) for each in trials]
        self._places = np.array(rows, dtype=np.float64).reshape(len(rows), len(self._axes))
        names = {axis.name for axis in self._axes}
        self._brushes = {name: each for name, each in self._brushes.items() if name in names}
        self._axis = min(self._axis, max(0, len(self._axes) - 1))
        numbers = [each.number for each in trials]
        self._pointed = numbers.index(pointed) if pointed in numbers else -1
        self._redraw()
        if had_brush:
            self._tell_brushes()

    def clear_brushes(self) -> None:
        """Let every trial pass."""
        if self._brushes:
            self._brushes.clear()
            self._redraw()
            self._tell_brushes()

    def brush(self, axis: int, low: float, high: float) -> None:
        """Let only trials pass that lie between two places of an axis."""
        self._brushes[self._axes[axis].name] = (min(low, high), max(low, high))
        self._redraw()
        self._tell_brushes()

    def point_to(self, number: int) -> None:
        """Emphasise the trial with this number; -1: none."""
        places = [place for place, each in enumerate(self._trials) if each.number == number]
        self._set_pointed(places[0] if places else -1)

    @property
    def axes(self) -> Sequence[Axis]:
        """The axes, from left to right."""
        return self._axes

    def passing(self) -> npt.NDArray[np.bool_]:
        """Return which trials pass all brushes."""
        passes = np.ones(len(self._trials), np.bool_)
        for axis, (low, high) in self._shown_brushes():
            column = self._places[:, axis]
            with np.errstate(invalid="ignore"):
                passes &= (column >= low) & (column <= high)
        return passes

    def x_of(self, axis: int) -> float:
        """Return where an axis stands, in logical pixels."""
        room = self.width() - _LEFT - _RIGHT
        return _LEFT + room * axis / max(1, len(self._axes) - 1)

    def y_of(self, place: float) -> float:
        """Return where a place of an axis is, in logical pixels."""
        return self.height() - _BOTTOM - place * (self.height() - _TOP - _BOTTOM)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the picture, and over it the line that is pointed to and the brushes."""
        theme = theme_of(QGuiApplication.palette())
        painter = QPainter(self)
        if not self._axes:
            painter.end()
            return
        if self._picture is None:
            self._picture = self._lines(theme)
        painter.drawPixmap(0, 0, self._picture)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self._pointed >= 0:
            painter.setPen(QPen(QColor(theme.card), 5.0))
            painter.drawPolyline(self._polyline(self._pointed))
            painter.setPen(QPen(QColor(theme.text), 2.2))
            painter.drawPolyline(self._polyline(self._pointed))
        for axis, (low, high) in self._shown_brushes():
            colour = QColor(theme.accent)
            colour.setAlpha(70)
            painter.setPen(QPen(QColor(theme.accent), 1))
            painter.setBrush(colour)
            left = self.x_of(axis) - _BRUSH_WIDTH / 2
            top, bottom = self.y_of(high), self.y_of(low)
            painter.drawRoundedRect(QRectF(left, top, _BRUSH_WIDTH, max(2.0, bottom - top)), 3, 3)
        self._draw_labels(painter, theme)
        painter.end()

    def resizeEvent(self, event: QEvent) -> None:
        """Draw the lines anew."""
        self._redraw()

    def changeEvent(self, event: QEvent) -> None:
        """Follow the theme."""
        super().changeEvent(event)
        if event.type() is QEvent.Type.PaletteChange:
            self._redraw()

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begin a brush on an axis, or a click on a line."""
        if event.button() is Qt.MouseButton.LeftButton and self._axes:
            place = event.position()
            self._pressed = (self._axis_at(place.x()), self._place_at(place.y()), place.y())

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Extend the brush; without a pressed button, point to the nearest line."""
        place = event.position()
        if self._pressed is not None:
            axis, begin, y = self._pressed
            if axis >= 0 and abs(place.y() - y) >= _DRAG:
                self.brush(axis, begin, self._place_at(place.y()))
            return
        is_axis = self._axis_at(place.x()) >= 0
        self.setCursor(Qt.CursorShape.SplitVCursor if is_axis else Qt.CursorShape.ArrowCursor)
        self._set_pointed(self._trial_at(place))
        if self._pointed >= 0:
            text = plain_tip(describe(self._trials[self._pointed]))
            QToolTip.showText(event.globalPosition().toPoint(), text, self)
        else:
            QToolTip.hideText()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """End a brush; a click removes the brush of an axis, or opens the run of a line."""
        pressed, self._pressed = self._pressed, None
        if pressed is None or abs(event.position().y() - pressed[2]) >= _DRAG:
            return
        axis = pressed[0]
        if axis >= 0 and self._brushes.pop(self._axes[axis].name, None) is not None:
            self._redraw()
            self._tell_brushes()
            return
        self._set_pointed(self._trial_at(event.position()))
        self._open()

    def leaveEvent(self, event: QEvent) -> None:
        """Point to nothing."""
        self._set_pointed(-1)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Go along an axis, filter, open: see the description for screen readers."""
        shift = bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)
        match event.key():
            case Qt.Key.Key_Left | Qt.Key.Key_Right if self._axes:
                by = 1 if event.key() == Qt.Key.Key_Right else -1
                self._axis = (self._axis + by) % len(self._axes)
                self._anchor = None
                self.update()
            case Qt.Key.Key_Up | Qt.Key.Key_Down if self._axes:
                self._go(1 if event.key() == Qt.Key.Key_Up else -1, brushes=shift)
            case Qt.Key.Key_Return | Qt.Key.Key_Enter:
                self._open()
            case Qt.Key.Key_Escape if self._brushes:
                self.clear_brushes()
            case _:
                super().keyPressEvent(event)

    def _go(self, by: int, *, brushes: bool) -> None:
        """Point to the next trial along the chosen axis; filter between where this began and it."""
        column = self._places[:, self._axis]
        order = [
            int(each) for each in np.argsort(column, kind="stable") if column[each] == column[each]
        ]
        if not order:
            return
        before = order.index(self._pointed) if self._pointed in order else None
        now = (0 if by > 0 else len(order) - 1) if before is None else before + by
        now = min(max(0, now), len(order) - 1)
        begin = float(column[order[now if before is None else before]])
        self._set_pointed(order[now])
        if not brushes:
            self._anchor = None
            return
        self._anchor = begin if self._anchor is None else self._anchor
        self.brush(self._axis, self._anchor, float(column[order[now]]))

    def _row(self, trial: TrialResult) -> list[float]:
        values = [trial.settings.get(axis.name) for axis in self._axes[:-1]]
        return [
            axis.place(each) for axis, each in zip(self._axes, [*values, trial.value], strict=True)
        ]

    def _shown_brushes(self) -> list[tuple[int, tuple[float, float]]]:
        return [
            (place, self._brushes[axis.name])
            for place, axis in enumerate(self._axes)
            if axis.name in self._brushes
        ]

    def _redraw(self) -> None:
        self._picture = None
        self.update()

    def _tell_brushes(self) -> None:
        if not self._brushes:
            self.brushed.emit(None)
            return
        passes = self.passing()
        self.brushed.emit(
            frozenset(each.number for each, ok in zip(self._trials, passes, strict=True) if ok)
        )

    def _set_pointed(self, place: int) -> None:
        if place == self._pointed:
            return
        self._pointed = place
        self.update()
        trial = self._trials[place] if place >= 0 else None
        self.setAccessibleName(describe(trial) if trial else "Parallel coordinates of the trials")
        self.pointed.emit(trial.number if trial else -1)

    def _open(self) -> None:
        if self._pointed >= 0 and (run := self._trials[self._pointed].run):
            self.opened.emit(run)

    def _axis_at(self, x: float) -> int:
        near = [axis for axis in range(len(self._axes)) if abs(self.x_of(axis) - x) <= _NEAR]
        return near[0] if near else -1

    def _place_at(self, y: float) -> float:
        room = self.height() - _TOP - _BOTTOM
        return min(1.0, max(0.0, (self.height() - _BOTTOM - y) / max(1, room)))

    def _trial_at(self, point: QPointF) -> int:
        """Return the trial whose line passes nearest below the pointer; -1: none is near."""
        if not len(self._trials):
            return -1
        count = len(self._axes)
        gap = (self.width() - _LEFT - _RIGHT) / max(1, count - 1)
        left = min(max(0, int((point.x() - _LEFT) // gap)), max(0, count - 2))
        share = (point.x() - self.x_of(left)) / gap
        right = min(left + 1, count - 1)
        heights = self._places[:, left] * (1 - share) + self._places[:, right] * share
        room = self.height() - _TOP - _BOTTOM
        distances = np.abs(heights * room - (self.height() - _BOTTOM - point.y()))
        distances[~np.isfinite(distances) | ~self.passing()] = np.inf
        nearest = int(np.argmin(distances))
        return nearest if -0.02 <= share <= 1.02 and distances[nearest] <= _NEAR else -1

    def _polyline(self, place: int) -> QPolygonF:
        points = []
        for axis, height in enumerate(self._places[place]):
            if not math.isfinite(height):
                break
            points.append(QPointF(self.x_of(axis), self.y_of(float(height))))
        return QPolygonF(points)

    def _lines(self, theme: Theme) -> QPixmap:
        """Draw axes and lines: the best ones last, those that do not pass first and faint."""
        ratio = self.devicePixelRatioF()
        picture = QPixmap(round(self.width() * ratio), round(self.height() * ratio))
        picture.setDevicePixelRatio(ratio)
        picture.fill(Qt.GlobalColor.transparent)
        painter = QPainter(picture)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(QColor(theme.line), 1))
        for axis in range(len(self._axes)):
            x = round(self.x_of(axis)) + 0.5
            painter.drawLine(QPointF(x, self.y_of(1.0)), QPointF(x, self.y_of(0.0)))
        scores = self._scores()
        passes = self.passing()
        opacity = next(each for most, each in _OPACITIES if passes.sum() <= most)
        is_thick = len(self._trials) <= _MOST_THICK
        order = np.lexsort((np.nan_to_num(scores, nan=-1.0), passes))
        for place in order.tolist():
            score = scores[place]
            if not passes[place]:
                pen = QPen(QColor(theme.line), 1)
            elif math.isnan(score):
                pen = QPen(QColor(theme.faint), 1, Qt.PenStyle.DotLine)
            else:
                colour = QColor(theme.result(score))
                colour.setAlpha(round(opacity + (255 - opacity) * score**4))
                pen = QPen(colour, 1.3 + score**4 if is_thick else 1.0)
            pen.setCosmetic(not is_thick)
            painter.setPen(pen)
            painter.drawPolyline(self._polyline(place))
        painter.end()
        return picture

    def _scores(self) -> Places:
        """Return how good each finished trial is, 0 to 1; NaN: it has no result to compare."""
        scores = self._places[:, -1].copy()
        if self._sweep is not None and self._sweep.lowest:
            scores = 1 - scores
        scores[[each.state != "finished" for each in self._trials]] = np.nan
        return scores

    def _draw_labels(self, painter: QPainter, theme: Theme) -> None:
        font = painter.font()
        font.setPixelSize(11)
        gap = (self.width() - _LEFT - _RIGHT) / max(1, len(self._axes) - 1)
        for number, axis in enumerate(self._axes):
            x = self.x_of(number)
            is_result = number == len(self._axes) - 1
            is_chosen = self.hasFocus() and number == self._axis
            font.setBold(is_result or is_chosen)
            painter.setFont(font)
            painter.setPen(QColor(theme.accent if is_chosen else theme.text))
            width = gap - 8 if 0 < number < len(self._axes) - 1 else min(gap, 2 * _RIGHT) - 8
            left = min(max(0.0, x - width / 2), self.width() - width)
            middle = Qt.TextElideMode.ElideMiddle
            title = painter.fontMetrics().elidedText(axis.title, middle, int(width))
            align = Qt.AlignmentFlag.AlignHCenter
            if left == 0:
                align = Qt.AlignmentFlag.AlignLeft
            elif left == self.width() - width:
                align = Qt.AlignmentFlag.AlignRight
            painter.drawText(
                QRectF(left, 2, width, 16), align | Qt.AlignmentFlag.AlignVCenter, title
            )
            font.setBold(False)
            painter.setFont(font)
            for place, text in axis.ticks():
                y = self.y_of(place)
                painter.setPen(QColor(theme.muted))
                painter.drawLine(QPointF(x - 3, y), QPointF(x + 3, y))
                self._draw_tick(painter, theme, x, y, text, at_left=number == 0, room=gap)

    def _draw_tick(
        self,
        painter: QPainter,
        theme: Theme,
        x: float,
        y: float,
        text: str,
        *,
        at_left: bool,
        room: float,
    ) -> None:
        """Write a label beside its axis, on a ground that hides the lines below it."""
        width = _LEFT - _LABEL_GAP - 2 if at_left else min(room / 2, _RIGHT) - _LABEL_GAP - 2
        metrics = painter.fontMetrics()
        text = metrics.elidedText(text, Qt.TextElideMode.ElideRight, int(width))
        wide = metrics.horizontalAdvance(text)
        left = x - _LABEL_GAP - wide if at_left else x + _LABEL_GAP
        ground = QColor(theme.card)
        ground.setAlpha(200)
        box = QRectF(left - 2, y - 7, wide + 4, 14)
        painter.fillRect(box, ground)
        painter.drawText(box, Qt.AlignmentFlag.AlignCenter, text)
