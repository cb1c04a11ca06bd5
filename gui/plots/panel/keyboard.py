"""Keyboard control of the plots: crosshair, markers, zoom and pan without a mouse."""

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
"""A zoom in keeps this part of the visible range."""

PAN = 0.2
"""A pan moves the view by this part of the visible range."""

Move = Callable[[CurvePlot, float | None], float | None]
"""Takes the plot and the x position of its crosshair; returns the new position, or None to stay."""


class PlotKeys(QObject):
    """The keys act on the plot of `panels` that has the focus (the focus may be in its legend).
    They are QActions so that the list of shortcuts shows them; the panels share them, so it shows
    each key once."""

    def __init__(self, panels: Sequence[PlotPanel], parent: QObject) -> None:
        super().__init__(parent)
        self._panels = panels
        self._active_panel: PlotPanel | None = None
        self._announced_marks = ""
        self._add_crosshair_actions()
        self._add_view_actions()
        self._escape = self._add("Hide the crosshair; back to all plots", ["Escape"], self._go_back)
        self._escape.setShortcutContext(Qt.ShortcutContext.WindowShortcut)
        self._escape.setEnabled(False)
        for panel in panels:
            panel.visibility.enlarged.connect(self._update_escape)
        app = QApplication.instance()
        assert isinstance(app, QApplication)
        app.focusChanged.connect(self._focus_moved)

    def _add_crosshair_actions(self) -> None:
        for text, keys, move in (
            ("Crosshair to the next point", "Right", _step(1, far=False)),
            ("Crosshair to the previous point", "Left", _step(-1, far=False)),
            ("Crosshair far to the right", "Shift+Right", _step(1, far=True)),
            ("Crosshair far to the left", "Shift+Left", _step(-1, far=True)),
            ("Crosshair to the first point", "Home", lambda plot, _: keyboard_cursor.end(plot, -1)),
            ("Crosshair to the last point", "End", lambda plot, _: keyboard_cursor.end(plot, 1)),
            ("To the next mark", "M", lambda plot, x: keyboard_cursor.next_mark(plot, x, 1)),
            (
                "To the previous mark",
                "Shift+M",
                lambda plot, x: keyboard_cursor.next_mark(plot, x, -1),
            ),
        ):
            self._add(text, [keys], partial(self._on_focused, partial(self._move_crosshair, move)))

        self._add("What made the step at the crosshair", ["Return", "Enter"], self._choose_step)

    def _choose_step(self) -> None:
        self._on_focused(lambda panel, plot: panel.choose_step(plot, panel.crosshair_x))

    def _add_view_actions(self) -> None:
        view_actions: list[tuple[str, list[str], Callable[[PlotPanel, CurvePlot], None]]] = [
            ("Zoom in", ["+", "="], lambda panel, plot: _zoom(panel, plot, ZOOM)),
            ("Zoom out", ["-"], lambda panel, plot: _zoom(panel, plot, 1 / ZOOM)),
            (
                "Zoom into the values",
                ["Ctrl++", "Ctrl+="],
                lambda _, plot: plot.canvas.zoom_y(ZOOM),
            ),
            ("Zoom out of the values", ["Ctrl+-"], lambda _, plot: plot.canvas.zoom_y(1 / ZOOM)),
            ("Move to the left", ["Ctrl+Left"], _pan(-PAN, 0.0)),
            ("Move to the right", ["Ctrl+Right"], _pan(PAN, 0.0)),
            ("Move up", ["Ctrl+Up"], _pan(0.0, PAN)),
            ("Move down", ["Ctrl+Down"], _pan(0.0, -PAN)),
        ]
        for text, keys, act in view_actions:
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

    def _move_crosshair(self, move: Move, panel: PlotPanel, plot: CurvePlot) -> None:
        """Move the crosshair. If it cannot move, announce its position again."""
        x = move(plot, panel.crosshair_x)
        x = panel.crosshair_x if x is None else x
        if x is not None:
            self._show(panel, plot, x)

    def _show(self, panel: PlotPanel, plot: CurvePlot, x: float) -> None:
        self._active_panel = panel
        plot.canvas.reveal(x)
        plot.refresh()  # draws the markers of the newly visible part
        panel.set_crosshair_x(x, plot)
        marked = plot.canvas.mark_text_at(x)
        new = marked if marked != self._announced_marks else ""
        self._announced_marks = marked
        lines = (*new.splitlines(), keyboard_cursor.describe(plot, x))
        keyboard_cursor.announce(plot.canvas, "\n".join(lines))
        self._update_escape()

    def _go_back(self) -> None:
        panel = self._active_panel
        if panel is not None and panel.crosshair_x is not None:  # the mouse has not taken it over
            self._hide(panel)
            return
        self._active_panel = None
        for panel in self._panels:
            if panel.isVisible():
                panel.visibility.show_all()

    def _hide(self, panel: PlotPanel) -> None:
        panel.set_crosshair_x(None)
        self._active_panel, self._announced_marks = None, ""
        self._update_escape()

    def _update_escape(self) -> None:
        enlarged = any(panel.visibility.is_enlarged for panel in self._panels)
        self._escape.setEnabled(enlarged or self._active_panel is not None)

    def _focus_moved(self, _before: QWidget | None, now: QWidget | None) -> None:
        """When the focus moves to another plot, announce its values at the same position; when it
        leaves all plots, hide the crosshair."""
        panel = self._active_panel
        if panel is None or now is None or now.window() is not panel.window():
            return
        if not panel.isAncestorOf(now):
            self._hide(panel)
        elif panel.crosshair_x is not None:
            x = panel.crosshair_x
            self._on_focused(lambda panel, plot: self._show(panel, plot, x))


def _step(direction: int, *, far: bool) -> Move:
    return lambda plot, x: keyboard_cursor.next_point(plot, x, direction, far=far)


def _zoom(panel: PlotPanel, plot: CurvePlot, part: float) -> None:
    plot.canvas.zoom_x(part, panel.crosshair_x)


def _pan(right: float, up: float) -> Callable[[PlotPanel, CurvePlot], None]:
    return lambda _, plot: plot.canvas.pan(right, up)
