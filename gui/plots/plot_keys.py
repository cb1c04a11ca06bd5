"""The keys of a plot: zoom and pan without a mouse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QAction, QKeySequence

from gui.plots.canvas import Canvas
from gui.plots.plot_panel import PlotPanel

ZOOM = 0.7
"""Part of what is in sight that stays after a zoom in."""

PAN = 0.2
"""Part of what is in sight by which a pan moves it."""


class PlotKeys(QObject):
    """Act on the one plot of all `panels` that has the focus. They are actions, so that the list of
    shortcuts finds them, and the panels share them, so that it finds them once."""

    def __init__(self, panels: Sequence[PlotPanel], parent: QObject) -> None:
        super().__init__(parent)
        self._panels = panels
        self._add(self.tr("Zoom in"), ["+", "="], lambda canvas: canvas.zoom_x(ZOOM))
        self._add(self.tr("Zoom out"), ["-"], lambda canvas: canvas.zoom_x(1 / ZOOM))
        self._add(self.tr("Move to the left"), ["Left"], lambda canvas: canvas.pan(-PAN, 0.0))
        self._add(self.tr("Move to the right"), ["Right"], lambda canvas: canvas.pan(PAN, 0.0))
        self._add(self.tr("Move up"), ["Up"], lambda canvas: canvas.pan(0.0, PAN))
        self._add(self.tr("Move down"), ["Down"], lambda canvas: canvas.pan(0.0, -PAN))

    def _add(self, text: str, keys: list[str], act: Callable[[Canvas], None]) -> None:
        action = QAction(text, self)
        action.setShortcuts([QKeySequence(key) for key in keys])
        action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        action.triggered.connect(partial(self._act, act))
        for panel in self._panels:
            panel.placement.panel.addAction(action)

    def _act(self, act: Callable[[Canvas], None]) -> None:
        for panel in self._panels:
            for plot in panel.plots():
                if plot.canvas.hasFocus():
                    act(plot.canvas)
