"""The plot area: what the mouse does there."""

from __future__ import annotations

from typing import Any

import pyqtgraph as pg
from PySide6.QtCore import QPointF, Qt, Signal

from gui.style.theme import Theme

_X, _Y = 0, 1
_SHORTEST_DRAG = 4.0
"""A shorter drag (logical pixels) is taken for a click."""

_SCALE_PER_PIXEL = 1.02
"""A drag with the right button scales by this factor for each logical pixel."""


class PlotArea(pg.ViewBox):  # type: ignore[misc]  # pyqtgraph has no types
    """The wheel and a drag zoom along x, a drag with the middle button moves along x; with Shift,
    along the values. A double click shows all."""

    fit_requested = Signal()
    zoomed_x = Signal()
    """The user has zoomed along x."""

    menu_wanted = Signal(float)
    """The user has clicked with the right button, at this position along x."""

    def __init__(self) -> None:
        super().__init__(enableMenu=False, defaultPadding=0.0)
        self.disableAutoRange()

    def wheelEvent(self, event: Any, axis: int | None = None) -> None:
        """Zoom along x; with Shift along the values. Over an axis, zoom along that one."""
        if axis is None:
            axis = _axis(event)
        if axis == _X:
            self.zoomed_x.emit()
        super().wheelEvent(event, axis)

    def mouseDragEvent(self, event: Any, axis: int | None = None) -> None:
        """Zoom into the range of the drag; move with the middle button or over an axis, scale with
        the right button."""
        event.accept()
        along = _axis(event) if axis is None else axis
        button = event.button()
        if button == Qt.MouseButton.RightButton:
            self._scale(event, along)
        elif button == Qt.MouseButton.MiddleButton or axis is not None:
            moved = self.mapToView(event.lastPos()) - self.mapToView(event.pos())
            if along == _X:
                self.translateBy(x=moved.x())
            else:
                self.translateBy(y=moved.y())
            self._tell(along)
        else:
            self._select(event, along)

    def mouseClickEvent(self, event: Any) -> None:
        """Request to show all points on a double click, and the menu on a right click."""
        if event.double() and event.button() == Qt.MouseButton.LeftButton:
            event.accept()
            self.fit_requested.emit()
        elif event.button() == Qt.MouseButton.RightButton:
            event.accept()
            self.menu_wanted.emit(self.mapToView(event.pos()).x())

    def set_theme(self, theme: Theme) -> None:
        """Colour the range of a drag."""
        self.rbScaleBox.setPen(pg.mkPen(theme.accent))
        colour = pg.mkColor(theme.accent)
        colour.setAlpha(theme.raw)
        self.rbScaleBox.setBrush(colour)

    def _select(self, event: Any, axis: int) -> None:
        """Mark the range of the drag over the whole width or height; at its end, zoom into it."""
        start, end = QPointF(event.buttonDownPos()), QPointF(event.pos())
        if axis == _X:
            first, last = QPointF(start.x(), 0.0), QPointF(end.x(), self.height())
        else:
            first, last = QPointF(0.0, start.y()), QPointF(self.width(), end.y())
        if not event.isFinish():
            self.updateScaleBox(first, last)
            return
        self.rbScaleBox.hide()
        moved = end - start
        if abs(moved.x() if axis == _X else moved.y()) < _SHORTEST_DRAG:
            return
        first, last = self.mapToView(first), self.mapToView(last)
        if axis == _X:
            self.zoomed_x.emit()
            self.setXRange(*sorted((first.x(), last.x())), padding=0)
        else:
            self.setYRange(*sorted((first.y(), last.y())), padding=0)
        self._tell(axis)

    def _scale(self, event: Any, axis: int) -> None:
        moved = QPointF(event.pos()) - QPointF(event.lastPos())
        middle = self.mapToView(event.buttonDownPos())
        if axis == _X:
            self.zoomed_x.emit()
            self.scaleBy(x=_SCALE_PER_PIXEL ** -moved.x(), center=middle)
        else:
            self.scaleBy(y=_SCALE_PER_PIXEL ** moved.y(), center=middle)
        self._tell(axis)

    def _tell(self, axis: int) -> None:
        self.sigRangeChangedManually.emit([axis == _X, axis == _Y])


def _axis(event: Any) -> int:
    return _Y if event.modifiers() & Qt.KeyboardModifier.ShiftModifier else _X
