"""The plots of the comparison: one curve per run, in the colour of the run."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from PySide6.QtCore import QSettings, Signal
from PySide6.QtWidgets import QWidget

from engine.runs.run_info import RunInfo
from engine.runs.store_follower import CurveUpdate
from engine.runs.store_reader import StoredPoints
from engine.spec.metric_direction import NO_OVERRIDES
from gui.plots.data.series_style import (
    LOSS,
    TRAIN_LOSS,
    VALIDATION_LOSS,
    PlotKind,
    SeriesStyle,
    display_name,
    style_of,
)
from gui.plots.data.x_axis import XScale
from gui.plots.panel.panel_settings import PanelSettings
from gui.plots.panel.plot_panel import PlotPanel
from gui.plots.plot.curve_plot import CurvePlot
from gui.plots.plot.menu import PlotAction
from gui.style.theme import Theme
from gui.style.translation import translate


class ComparisonPlots(PlotPanel):
    """The name of a curve is the id of its run."""

    zoom_points_wanted = Signal(str, str, float, float)
    """Id of a run, its series, and the steps between which a zoom needs more points."""

    export_wanted = Signal(object, object, str, dict)
    """PlotAction (to copy or save), the CurvePlot, the series that it shows, and the names of the
    runs by id."""

    def __init__(
        self, theme: Theme, settings: QSettings | None = None, parent: QWidget | None = None
    ) -> None:
        """`settings` keep the layout and the choices of the toolbar, apart from those of a single
        run."""
        super().__init__(theme, PanelSettings(settings, "compare"), parent)
        self._labels: dict[str, str] = {}
        self._colours: dict[str, int] = {}
        self._baseline: str | None = None
        self._series: dict[PlotKind, str] = {}
        self._scales: dict[str, XScale] = {}
        self.toolbar.markers.hide()  # markers of several runs would hide the curves

    def show_runs(
        self, infos: list[RunInfo], colours: Mapping[str, int], baseline: str | None
    ) -> None:
        """Name and colour the curves of these runs; the curves of the baseline are dashed."""
        self._labels = {info.id: f"#{info.id} {info.name}" for info in infos}
        self._colours = dict(colours)
        self._baseline = baseline
        for plot in self.plots():
            for run_id in plot.curves:
                self._apply_style(plot, run_id)

    def add_points(
        self, run_id: str, update: CurveUpdate, metric_directions: Mapping[str, str] = NO_OVERRIDES
    ) -> None:
        """Add points to the curve of a run, or replace them. `metric_directions` (`min` or `max` by
        metric) decide which value is the best."""
        style = comparison_style(update.series, metric_directions)
        if style is None or run_id not in self._colours:
            return
        self._series[style.plot] = update.series
        plot = self.plot_of(style.plot)
        if run_id not in plot.curves:
            plot.set_curve(run_id, smooth=style.smooth, best_sign=style.best_sign)
            self._apply_style(plot, run_id)
            self._apply_x_scales(plot)
        points = update.points.scaled(style.factor)
        (plot.set_points if update.replaces else plot.add_points)(run_id, points)
        plot.set_headline(" ")

    def set_zoom_points(self, run_id: str, series: str, points: StoredPoints) -> None:
        """Set the zoom points of a curve: the answer to `zoom_points_wanted`."""
        style = comparison_style(series)
        if style is not None and style.plot in self._plots:
            self._plots[style.plot].set_zoom_points(run_id, points.scaled(style.factor))

    def set_x_scales(self, scales: Mapping[str, XScale]) -> None:
        """Place the curves of each run on the run's own horizontal axis: time and epochs count from
        the beginning of the run."""
        if scales != self._scales:
            self._scales = dict(scales)
            for plot in self.plots():
                self._apply_x_scales(plot)

    def remove_run(self, run_id: str) -> None:
        """Remove the curves of a run, and the plots that have no other curve. The view of the other
        plots stays."""
        for kind, plot in list(self._plots.items()):
            if run_id in plot.curves:
                plot.remove_curve(run_id)
            if not list(plot.curves):
                self._remove(kind)
                del self._series[kind]
        self.visibility.refresh()

    def _apply_style(self, plot: CurvePlot, run_id: str) -> None:
        plot.set_curve(
            run_id,
            colour_index=self._colours.get(run_id),
            label=self._labels.get(run_id),
            dashed=run_id == self._baseline,
        )

    def _connect_plot(self, kind: PlotKind, plot: CurvePlot) -> None:
        plot.curves.coloured_best_markers = True
        plot.zoom_points_wanted.connect(partial(self._want_zoom_points, kind))

    def _export(self, kind: PlotKind, action: PlotAction) -> None:
        plot = self._plots[kind]
        runs = {run_id: self._labels.get(run_id, f"#{run_id}") for run_id in plot.curves}
        self.export_wanted.emit(action, plot, self._series[kind], runs)

    def _apply_x_scales(self, plot: CurvePlot) -> None:
        plot.set_x_scale(XScale(self.toolbar.x_kind))
        for run_id in plot.curves:
            if run_id in self._scales:
                plot.set_curve_x_scale(run_id, self._scales[run_id])

    def _want_zoom_points(self, kind: PlotKind, run_id: str, first: float, last: float) -> None:
        self.zoom_points_wanted.emit(run_id, self._series[kind], first, last)


def comparison_style(
    series: str, metric_directions: Mapping[str, str] = NO_OVERRIDES
) -> SeriesStyle | None:
    """Return the plot and the style of `series` in the comparison; None if it is not drawn. Every
    series has its own plot there, because the colours identify the runs."""
    style = style_of(series, metric_directions)
    if style is None:
        return None
    kind = style.plot
    is_validation = series.startswith("validation/")
    if kind == LOSS:
        return style._replace(plot=VALIDATION_LOSS if is_validation else TRAIN_LOSS)
    title = (
        kind.title
        if is_validation or kind.is_detail or kind.unit == "samples/s"
        else translate("Plots", "{metric} (training)").format(metric=display_name(kind.title))
    )
    return style._replace(plot=kind._replace(title=title, rank=kind.rank + 1, is_detail=False))
