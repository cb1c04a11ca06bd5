"""The keys of a plot: its crosshair, its marks, zoom and pan without a mouse."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from PySide6.QtCore import QObject, Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import QApplication, QWidget

from gui.plots.panel import keyboard_cursor
from gui.plots.panel.plot_panel import PlotPanel
from gui.plots.plot.curve_plot import CurvePlot

ZOOM = 0.7
"""Part of what is in sight that stays after a zoom in."""

PAN = 0.2
"""Part of what is in sight by which a pan moves it."""

Move = Callable[[CurvePlot, float | None], float | None]
"""From the plot, and where its crosshair stands, to where it goes; None: it stays."""


class PlotKeys(QObject):
    """Act on the one plot of all `panels` that has the focus, be it in its legend. They are
    actions, so that the list of shortcuts finds them, and the panels share them, so that it finds
    them once."""

    def __init__(self, panels: Sequence[PlotPanel], parent: QObject) -> None:
        super().__init__(parent)
        self._panels = panels
        self._pointing: PlotPanel | None = None
        self._told = ""
        self._add_pointer()
        self._add_view()
        self._leave = self._add(
            self.tr("Hide the crosshair; back to all plots"), ["Escape"], self._go_back
        )
        self._leave.setShortcutContext(Qt.ShortcutContext.WindowShortcut)
        self._leave.setEnabled(False)
        for panel in panels:
            panel.visibility.enlarged.connect(self._offer_to_leave)
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        app.focusChanged.connect(self._focus_moved)

    def _add_pointer(self) -> None:
        for text, keys, move in (
            (self.tr("Crosshair to the next point"), "Right", _step(1, far=False)),
            (self.tr("Crosshair to the point before"), "Left", _step(-1, far=False)),
            (self.tr("Crosshair far to the right"), "Shift+Right", _step(1, far=True)),
            (self.tr("Crosshair far to the left"), "Shift+Left", _step(-1, far=True)),
            (
                self.tr("Crosshair to the first point"),
                "Home",
                lambda plot, _: keyboard_cursor.end(plot, -1),
            ),
            (
                self.tr("Crosshair to the last point"),
                "End",
                lambda plot, _: keyboard_cursor.end(plot, 1),
            ),
            (
                self.tr("To the next mark"),
                "M",
                lambda plot, x: keyboard_cursor.next_mark(plot, x, 1),
            ),
            (
                self.tr("To the mark before"),
                "Shift+M",
                lambda plot, x: keyboard_cursor.next_mark(plot, x, -1),
            ),
        ):
            self._add(text, [keys], partial(self._on_focused, partial(self._point, move)))

    def _add_view(self) -> None:
        canvas_acts: list[tuple[str, list[str], Callable[[PlotPanel, CurvePlot], None]]] = [
            (self.tr("Zoom in"), ["+", "="], lambda panel, plot: _zoom(panel, plot, ZOOM)),
            (self.tr("Zoom out"), ["-"], lambda panel, plot: _zoom(panel, plot, 1 / ZOOM)),
            (
                self.tr("Zoom into the values"),
                ["Ctrl++", "Ctrl+="],
                lambda _, plot: plot.canvas.zoom_y(ZOOM),
            ),
            (
                self.tr("Zoom out of the values"),
                ["Ctrl+-"],
                lambda _, plot: plot.canvas.zoom_y(1 / ZOOM),
            ),
            (self.tr("Move to the left"), ["Ctrl+Left"], _pan(-PAN, 0.0)),
            (self.tr("Move to the right"), ["Ctrl+Right"], _pan(PAN, 0.0)),
            (self.tr("Move up"), ["Ctrl+Up"], _pan(0.0, PAN)),
            (self.tr("Move down"), ["Ctrl+Down"], _pan(0.0, -PAN)),
        ]
        for text, keys, act in canvas_acts:
            self._add(text, keys, partial(self._on_focused, act))

    def _add(self, text: str, keys: list[str], act: Callable[[], None]) -> QAction:
        action = QAction(text, self)
        action.setShortcuts([QKeySequence(key) for key in keys])
        action.setShortcutContext(Qt.ShortcutContext.WidgetWithChildrenShortcut)
        action.triggered.connect(lambda: act())
        for panel in self._panels:
            panel.visibility.grid.addAction(action)
        return action

    def _on_focused(self, act: Callable[[PlotPanel, CurvePlot], None]) -> None:
        focused = QApplication.focusWidget()
        for panel in self._panels:
            for plot in panel.plots():
                if focused is not None and plot.isAncestorOf(focused):
                    act(panel, plot)

    def _point(self, move: Move, panel: PlotPanel, plot: CurvePlot) -> None:
        """Move the crosshair; where there is nowhere to go, say again where it is."""
        x = move(plot, panel.crosshair_x)
        x = panel.crosshair_x if x is None else x
        if x is not None:
            self._show(panel, plot, x)

    def _show(self, panel: PlotPanel, plot: CurvePlot, x: float) -> None:
        self._pointing = panel
        plot.canvas.reveal(x)
        plot.refresh()  # what is marked in the part that is new in sight
        panel.set_crosshair_x(x, plot)
        marked = plot.canvas.marked_at(x)
        new = marked if marked != self._told else ""
        self._told = marked
        lines = (*new.splitlines(), keyboard_cursor.words(plot, x))
        keyboard_cursor.announce(plot.canvas, "\n".join(lines))
        self._offer_to_leave()

    def _go_back(self) -> None:
        panel = self._pointing
        if panel is not None and panel.crosshair_x is not None:  # no mouse has taken it away
            self._hide(panel)
            return
        self._pointing = None
        for panel in self._panels:
            if panel.isVisible():
                panel.visibility.show_all()

    def _hide(self, panel: PlotPanel) -> None:
        panel.set_crosshair_x(None)
        self._pointing, self._told = None, ""
        self._offer_to_leave()

    def _offer_to_leave(self) -> None:
        enlarged = any(panel.visibility.is_enlarged for panel in self._panels)
        self._leave.setEnabled(enlarged or self._pointing is not None)

    def _focus_moved(self, _before: QWidget | None, now: QWidget | None) -> None:
        """Who goes to the next plot hears its values at the same place; who leaves all of them
        leaves the crosshair, too."""
        panel = self._pointing
        if panel is None or now is None or now.window() is not panel.window():
            return
        if not panel.isAncestorOf(now):
            self._hide(panel)
        elif panel.crosshair_x is not None:
            x = panel.crosshair_x
            self._on_focused(lambda panel, plot: self._show(panel, plot, x))


def _step(way: int, *, far: bool) -> Move:
    return lambda plot, x: keyboard_cursor.next_point(plot, x, way, far=far)


def _zoom(panel: PlotPanel, plot: CurvePlot, part: float) -> None:
    plot.canvas.zoom_x(part, panel.crosshair_x)


def _pan(right: float, up: float) -> Callable[[PlotPanel, CurvePlot], None]:
    return lambda _, plot: plot.canvas.pan(right, up)
