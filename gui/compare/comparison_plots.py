"""The plots of the comparison: a curve for each run, in the colour that the run has everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from PySide6.QtCore import QSettings, Signal
from PySide6.QtWidgets import QWidget

from engine.client import RunInfo
from engine.runs.store_follower import CurveUpdate
from engine.runs.store_reader import StoredPoints
from engine.spec.metric_direction import NO_OVERRIDES
from gui.compare.comparison_kinds import place
from gui.plots.data.series_style import PlotKind
from gui.plots.data.x_axis import XScale
from gui.plots.panel.panel_settings import Kept
from gui.plots.panel.plot_panel import PlotPanel
from gui.plots.plot.curve_plot import CurvePlot
from gui.plots.plot.menu import PlotAction
from gui.style.theme import Theme


class ComparisonPlots(PlotPanel):
    """Curves are named by the id of their run."""

    finer_wanted = Signal(str, str, float, float)
    """Id of a run, its series, and the steps between which finer points would show."""

    export_wanted = Signal(object, object, str, dict)
    """PlotAction (to copy or save), the CurvePlot, the engine's name of what it shows of every run,
    and what the runs are called, by their ids."""

    def __init__(
        self, theme: Theme, settings: QSettings | None = None, parent: QWidget | None = None
    ) -> None:
        """`settings` keep the layout and the choices of the bar, apart from those of a run."""
        super().__init__(theme, Kept(settings, "compare"), parent)
        self._labels: dict[str, str] = {}
        self._colours: dict[str, int] = {}
        self._baseline: str | None = None
        self._series: dict[PlotKind, str] = {}
        self._scales: dict[str, XScale] = {}
        self.bar.markers.hide()  # of several runs they would be a crowd

    def show_runs(
        self, infos: list[RunInfo], colours: Mapping[str, int], baseline: str | None
    ) -> None:
        """Name and colour the curves of these runs; the baseline's are dashed."""
        self._labels = {info.id: f"#{info.id} {info.name}" for info in infos}
        self._colours = dict(colours)
        self._baseline = baseline
        for plot in self.plots():
            for run_id in plot.curve_names():
                self._dress(plot, run_id)

    def take(
        self,
        run_id: str,
        update: CurveUpdate,
        metric_directions: Mapping[str, str] = NO_OVERRIDES,
    ) -> None:
        """Take new points of a run, whose stars go by its `metric_directions`."""
        where = place(update.series, metric_directions)
        if where is None or run_id not in self._colours:
            return
        self._series[where.plot] = update.series
        plot = self.plot_of(where.plot)
        if run_id not in plot.curve_names():
            plot.set_curve(run_id, smooth=where.smooth, best_sign=where.best_sign)
            self._dress(plot, run_id)
            self._set_scales(plot)
        take = plot.set_points if update.replaces else plot.add_points
        take(run_id, update.points.scaled(where.factor))
        plot.set_headline(" ")

    def set_finer(self, run_id: str, series: str, points: StoredPoints) -> None:
        """Take finer points of a part of a curve: the answer to `finer_wanted`."""
        where = place(series)
        if where is not None and where.plot in self._plots:
            self._plots[where.plot].set_finer(run_id, points.scaled(where.factor))

    def set_x_scales(self, scales: Mapping[str, XScale]) -> None:
        """Place the curves of each run on its own horizontal axis: time and epochs are counted
        from the run's beginning."""
        if scales != self._scales:
            self._scales = dict(scales)
            for plot in self.plots():
                self._set_scales(plot)

    def take_out(self, run_id: str) -> None:
        """Forget a run, and the plots that no other run has; the rest stays as it is seen."""
        for kind, plot in list(self._plots.items()):
            if run_id in plot.curve_names():
                plot.remove_curve(run_id)
            if not plot.curve_names():
                self._remove(kind)
                del self._series[kind]
        self.placement.refresh()

    def _dress(self, plot: CurvePlot, run_id: str) -> None:
        plot.set_curve(
            run_id,
            colour_index=self._colours.get(run_id),
            label=self._labels.get(run_id),
            dashed=run_id == self._baseline,
        )

    def _furnish(self, kind: PlotKind, plot: CurvePlot) -> None:
        plot.curves.own_stars = True
        plot.finer_wanted.connect(partial(self._want_finer, kind))

    def _export(self, kind: PlotKind, action: PlotAction) -> None:
        plot = self._plots[kind]
        runs = {run_id: self._labels.get(run_id, f"#{run_id}") for run_id in plot.curve_names()}
        self.export_wanted.emit(action, plot, self._series[kind], runs)

    def _set_scales(self, plot: CurvePlot) -> None:
        plot.set_x_scale(XScale(self.bar.x_kind))
        for run_id in plot.curve_names():
            if run_id in self._scales:
                plot.set_curve_x_scale(run_id, self._scales[run_id])

    def _want_finer(self, kind: PlotKind, run_id: str, first: float, last: float) -> None:
        self.finer_wanted.emit(run_id, self._series[kind], first, last)
