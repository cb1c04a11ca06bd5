"""A panel of plots below a toolbar: creates plots on demand, links their zoom, repaints in turn."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

from PySide6.QtCore import QPointF, Qt, Signal
from PySide6.QtGui import QCursor, QResizeEvent
from PySide6.QtWidgets import QMenu, QWidget

from engine.system.natural_order import natural_key
from gui.plots.data.ranges import union
from gui.plots.data.series_style import PlotKind
from gui.plots.panel.toolbar import PlotToolbar
from gui.plots.panel.toolbar_state import ToolbarState
from gui.plots.panel.visibility import PlotVisibility
from gui.plots.plot.curve_plot import CurvePlot
from gui.plots.plot.menu import PlotAction
from gui.style.theme import Theme
from gui.widgets.boxes import column_of
from gui.widgets.panel_settings import PanelSettings

PlaceOfPlot = tuple[int, bool, tuple[tuple[int, str], ...]]


class PlotPanel(QWidget):
    """A toolbar and its plots; a timer calls `tick`, which repaints one plot per call."""

    step_chosen = Signal(int)
    """The user wants to know what made this step, of the only run that is shown."""

    offers_steps = False
    """Whether the plots offer `step_chosen`; subclasses for one run do."""

    def __init__(
        self, theme: Theme, settings: PanelSettings, parent: QWidget | None = None
    ) -> None:
        """`settings` keep the layout and the choices in the toolbar."""
        super().__init__(parent)
        self._theme = theme
        self._plots: dict[PlotKind, CurvePlot] = {}
        self._next = 0
        self._zoom_ended_follow = False
        self.crosshair_x: float | None = None
        """X position of the crosshair in all plots; None: hidden."""

        self.toolbar = PlotToolbar(theme)
        self.visibility = PlotVisibility(self._plots, settings, self._has_use, self)
        column_of(self.toolbar, (self.visibility.grid, 1), parent=self, margins=0, spacing=8)
        self.visibility.grid.wheeled.connect(self._find_pointer)
        menu = self.toolbar.plots_menu
        menu.aboutToShow.connect(lambda: self.visibility.fill(menu))
        self.toolbar.smoothing_changed.connect(self._set_smoothing)
        self.toolbar.raw.toggled.connect(self._set_show_raw)
        self.toolbar.log_y.toggled.connect(self._set_log_y)
        self.toolbar.link_x.toggled.connect(self._link)
        self.toolbar.follow.toggled.connect(self._set_follow)
        self.toolbar.fit.clicked.connect(self.fit)
        self._toolbar_state = ToolbarState(self.toolbar, settings, self)

    def plots(self) -> list[CurvePlot]:
        """The plots in the user's order."""
        return [self._plots[kind] for kind in self.visibility.kinds()]

    def plot(self, title: str) -> CurvePlot:
        """Return the plot with this title. Raises KeyError if there is none."""
        return {plot.title: plot for plot in self._plots.values()}[title]

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of `theme`."""
        self._theme = theme
        self.toolbar.set_theme(theme)
        for plot in self._plots.values():
            plot.set_theme(theme)

    def set_follow(self, follow: bool) -> None:
        """Let every plot follow its newest points, or hold its view."""
        self.toolbar.follow.setChecked(follow)
        self._set_follow(follow)

    def begin(self) -> None:
        """Prepare for other runs: discard the zoom. Follow unless the user has switched that
        off."""
        self.set_follow(self.toolbar.follow.isChecked() or self._zoom_ended_follow)
        self.fit()
        self.set_crosshair_x(None)

    def reset_layout(self) -> None:
        """Show every plot in the natural order, and reset the toolbar."""
        self.visibility.reset()
        self._toolbar_state.reset()

    def fit(self) -> None:
        """Show all points in every plot. Plots that stopped following because of a zoom follow
        again if "Follow" is on."""
        for plot in self._plots.values():
            self._fit(plot)

    def tick(self) -> bool:
        """Repaint the next plot that has changed. Return whether there was one; a timer calls this
        for every frame."""
        plots = list(self._plots.values())
        if not any(plot.is_stale for plot in plots):
            return False
        linked = self.toolbar.link_x.isChecked()
        extent = union(plot.curves.x_range() for plot in plots) if linked else None
        chosen = [plot.viewport.chosen_range for plot in plots if linked]
        for plot in plots:
            plot.viewport.set_extent(extent)
            plot.viewport.set_linked_range(next(filter(None, chosen), None))
        for _ in plots:
            self._next = (self._next + 1) % len(plots)
            if plots[self._next].refresh():
                return True
        return False

    def show_newest(self) -> None:
        """Show the values of the newest points in all legends at once: figures elsewhere change at
        this moment too. The curves follow in the next frames."""
        for plot in self._plots.values():
            plot.show_newest()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Use two columns or three, depending on the width."""
        super().resizeEvent(event)
        self.visibility.refresh()

    def focusNextPrevChild(self, next: bool) -> bool:
        """Let Tab visit the plots in their visible order, not in the order of their creation."""
        stops = [stop for plot in self.plots() for stop in plot.tab_stops()]
        for stop, following in pairwise([self.toolbar.plots, *stops]):
            QWidget.setTabOrder(stop, following)
        return super().focusNextPrevChild(next)

    def set_crosshair_x(self, x: float | None, source: CurvePlot | None = None) -> None:
        """Move the crosshair of all plots to the position `x`; None hides it. In the plot `source`,
        the text of the marks there is shown."""
        self.crosshair_x = x
        for plot in self._plots.values():
            marked = plot.canvas.mark_text_at(x) if x is not None and plot is source else ""
            plot.set_crosshair(x, marked)

    def plot_of(self, kind: PlotKind) -> CurvePlot:
        """Return the plot of `kind`; create it if necessary."""
        if kind not in self._plots:
            plot = self._make(kind)
            self._plots[kind] = plot
            self._sort()
            self._connect_plot(kind, plot)
            self.visibility.refresh()
        return self._plots[kind]

    def _sort(self) -> None:
        """Bring the plots into their natural order."""
        plots = dict(self._plots)
        self._plots.clear()
        self._plots.update((kind, plots[kind]) for kind in sorted(plots, key=self._sort_key))

    def _sort_key(self, kind: PlotKind) -> PlaceOfPlot:
        """The place of a plot in the natural order; subclasses override this."""
        return kind.rank, False, natural_key(kind.title)

    def _has_use(self, kind: PlotKind) -> bool:
        """Whether a plot tells anything now; subclasses override this. One that does not is neither
        shown nor in the menu."""
        return True

    def _connect_plot(self, kind: PlotKind, plot: CurvePlot) -> None:
        """Connect a new plot; subclasses override this."""

    def _export(self, kind: PlotKind, action: PlotAction) -> None:
        """Copy or save a plot."""
        raise NotImplementedError

    def _remove(self, kind: PlotKind) -> None:
        self.visibility.remove(kind, self._plots.pop(kind))

    def _make(self, kind: PlotKind) -> CurvePlot:
        plot = CurvePlot(
            kind.title,
            unit=kind.unit,
            value_format=kind.value_format,
            y_range=kind.y_range,
            wide_legend=kind.per_rank,
            is_stacked=kind.is_stacked,
            theme=self._theme,
        )
        plot.set_smoothing(self.toolbar.smoothing)
        plot.set_show_raw(self.toolbar.raw.isChecked())
        plot.set_log_y(kind.may_be_log and self.toolbar.log_y.isChecked())
        plot.viewport.set_follow(self.toolbar.follow.isChecked())
        plot.viewport.zoomed.connect(lambda first, last: self._zoomed(plot, first, last))
        plot.viewport.followed.connect(self._followed)
        plot.viewport.fitted.connect(lambda: self._fitted(plot))
        plot.canvas.hovered.connect(self.set_crosshair_x)
        plot.canvas.area.menu_wanted.connect(partial(self._show_menu, plot))
        plot.header.menu.chosen.connect(partial(self._do, kind))
        plot.header.double_clicked.connect(partial(self._do, kind, PlotAction.ENLARGE))
        return plot

    def _do(self, kind: PlotKind, action: PlotAction) -> None:
        if action.is_export:
            self._export(kind, action)
        else:
            self.visibility.do(kind, action)

    def choose_step(self, plot: CurvePlot, x: float | None) -> None:
        """Emit `step_chosen` for the point of a plot that is nearest to the position `x`."""
        step = plot.curves.step_at(x) if self.offers_steps and x is not None else None
        if step:
            self.step_chosen.emit(step)

    def _show_menu(self, plot: CurvePlot, x: float) -> None:
        if not (self.offers_steps and (step := plot.curves.step_at(x))):
            return
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        entry = menu.addAction(f"What made step {step:,}?")
        entry.triggered.connect(partial(self.step_chosen.emit, step))
        menu.popup(QCursor.pos())

    def _find_pointer(self, pointer: QPointF) -> None:
        canvases = [plot.canvas for plot in self._plots.values()]
        for canvas in sorted(canvases, key=lambda each: each.is_under(pointer)):
            canvas.find_pointer(pointer)  # last the one under the mouse, which shows the crosshair

    def _set_smoothing(self, smoothing: float) -> None:
        for plot in self._plots.values():
            plot.set_smoothing(smoothing)

    def _set_show_raw(self, show: bool) -> None:
        for plot in self._plots.values():
            plot.set_show_raw(show)

    def _set_log_y(self, log: bool) -> None:
        for kind, plot in self._plots.items():
            plot.set_log_y(kind.may_be_log and log)

    def _link(self) -> None:
        for plot in self._plots.values():
            plot.repaint_soon()

    def _set_follow(self, follow: bool) -> None:
        self._zoom_ended_follow = False
        for plot in self._plots.values():
            plot.viewport.set_follow(follow)

    def _zoomed(self, moved: CurvePlot, first: float, last: float) -> None:
        if self.toolbar.link_x.isChecked():
            for plot in self._plots.values():
                if plot is not moved:
                    plot.canvas.show_x((first, last))

    def _followed(self, follow: bool) -> None:
        # If "Follow" is off in the toolbar, the user has switched it off there.
        if not follow and self.toolbar.link_x.isChecked() and self.toolbar.follow.isChecked():
            self.set_follow(False)
            self._zoom_ended_follow = True

    def _fitted(self, plot: CurvePlot) -> None:
        if self.toolbar.link_x.isChecked():
            self.fit()
        else:
            self._fit(plot)

    def _fit(self, plot: CurvePlot) -> None:
        plot.viewport.set_follow(self.toolbar.follow.isChecked())
        plot.viewport.fit()
