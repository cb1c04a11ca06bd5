"""The plots of the comparison: one curve per run, or the mean of each group of runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple

from PySide6.QtCore import QSettings, Signal
from PySide6.QtWidgets import QWidget

from engine.runs.run_info import RunInfo
from engine.runs.store.store_follower import CurveUpdate
from engine.runs.store.stored_points import StoredPoints
from engine.spec.metric_direction import NO_OVERRIDES
from gui.plots.data.band import band_of
from gui.plots.data.series_style import (
    LOSS,
    METRIC_RANK,
    TRAIN_LOSS,
    VALIDATION_LOSS,
    PlotKind,
    SeriesStyle,
    display_name,
    is_named_by_script,
    style_of,
)
from gui.plots.data.share_scale import ShareScale
from gui.plots.data.x_axis import XScale
from gui.plots.panel.panel_settings import PanelSettings
from gui.plots.panel.plot_panel import PlotPanel
from gui.plots.plot.curve import Curve
from gui.plots.plot.curve_plot import CurvePlot
from gui.plots.plot.menu import PlotAction
from gui.style.theme import Theme
from gui.style.translation import translate

_GROUP = "group "
"""How the names of the curves of groups begin."""


class RunGroup(NamedTuple):
    """Chosen runs that have one curve together."""

    name: str
    """What they have in common; differs from that of other groups."""

    run_ids: tuple[str, ...]


class ComparisonPlots(PlotPanel):
    """The name of a curve is the id of its run, or that of a group with a prefix.

    While groups are shown, the curves of the runs are apart: they get points, but are not drawn.
    """

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
        self._shares = ShareScale()
        self._scales: dict[str, XScale] = {}
        self._groups: tuple[RunGroup, ...] = ()
        self._group_colours: dict[str, int] = {}
        self._apart: dict[PlotKind, dict[str, Curve]] = {}
        self._old_bands: set[PlotKind] = set()
        self.toolbar.markers.hide()  # markers of several runs would hide the curves

    def show_runs(
        self, infos: list[RunInfo], colours: Mapping[str, int], baseline: str | None
    ) -> None:
        """Name and colour the curves of these runs; the curves of the baseline are dashed."""
        before = {run_id: self._look(run_id) for run_id in self._labels}
        self._labels = {info.id: f"#{info.id} {info.name}" for info in infos}
        self._colours = dict(colours)
        self._baseline = baseline
        changed = {run_id for run_id in self._labels if before.get(run_id) != self._look(run_id)}
        for plot in self.plots() if changed and not self._groups else ():
            for run_id in changed.intersection(plot.curves):
                self._apply_style(plot, run_id)

    def show_groups(self, groups: Iterable[RunGroup]) -> None:
        """Show one curve for each of these groups, the mean of its runs with their deviation; the
        next `tick` draws them. Without any, show one curve per run."""
        before, self._groups = self._groups, tuple(groups)
        if self._groups == before:
            return
        names = [group.name for group in self._groups]
        self._group_colours = _coloured(names, self._group_colours)
        for kind, plot in self._plots.items():
            for name in list(plot.curves):
                if not self._groups or (before and name.removeprefix(_GROUP) not in names):
                    plot.remove_curve(name)
                elif not before:
                    self._set_apart(kind, plot, name)
            if not self._groups:
                for run_id, curve in self._apart.pop(kind, {}).items():
                    plot.put_curve(run_id, curve)
                    self._apply_style(plot, run_id)
                self._apply_x_scales(plot)
        self._old_bands = set(self._plots) if self._groups else set()

    def group_colours(self) -> dict[str, int]:
        """Return the colour index of each run's group, by the id of the run."""
        return {
            run_id: self._group_colours[group.name]
            for group in self._groups
            for run_id in group.run_ids
        }

    def tick(self) -> bool:
        """Compute the means that have changed and can be seen, and repaint the next plot."""
        if self._old_bands:
            self._update_bands()
        return super().tick()

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
        if run_id not in self._runs_of(style.plot):
            plot.set_curve(run_id, smooth=style.smooth, best_sign=style.best_sign)
            self._apply_style(plot, run_id)
            plot.set_x_scale(XScale(self.toolbar.x_kind))
            if run_id in self._scales:
                plot.set_curve_x_scale(run_id, self._scales[run_id])
            if self._groups:
                self._set_apart(style.plot, plot, run_id)
        parts: Sequence[StoredPoints] = [update.points.scaled(style.factor)]
        replaces = update.replaces
        if style.is_share:
            share = style.plot, run_id
            parts, replaces = self._shares.add(share, update.points, style.factor, replace=replaces)
        if self._groups:
            curve = self._apart[style.plot][run_id]
            if replaces:
                curve.clear()
            for part in parts:
                curve.extend(part)
            self._old_bands.add(style.plot)
            return
        for number, part in enumerate(parts):
            (plot.set_points if replaces and not number else plot.add_points)(run_id, part)

    def set_zoom_points(self, run_id: str, series: str, points: StoredPoints) -> None:
        """Set the zoom points of a curve: the answer to `zoom_points_wanted`."""
        style = comparison_style(series)
        if style is not None and style.plot in self._plots:
            scaled = points.scaled(style.factor)
            if style.is_share:
                scaled = self._shares.scaled((style.plot, run_id), points, style.factor)
            self._plots[style.plot].set_zoom_points(run_id, scaled)

    def set_x_scales(self, scales: Mapping[str, XScale]) -> None:
        """Place the curves of each run on the run's own horizontal axis: time and epochs count from
        the beginning of the run."""
        if scales != self._scales:
            self._scales = dict(scales)
            for plot in self.plots():
                self._apply_x_scales(plot)
            for curves in self._apart.values():
                for run_id, curve in curves.items():
                    curve.set_x_scale(scales.get(run_id, XScale(self.toolbar.x_kind)))
            self._old_bands |= self._apart.keys()

    def remove_run(self, run_id: str) -> None:
        """Remove the curves of a run, and the plots that have no other curve. The view of the other
        plots stays."""
        for kind, plot in list(self._plots.items()):
            if run_id in plot.curves:
                plot.remove_curve(run_id)
            if self._apart.get(kind, {}).pop(run_id, None):
                self._old_bands.add(kind)
            self._shares.remove((kind, run_id))
            if not self._runs_of(kind):
                self._remove(kind)
                del self._series[kind]
                self._apart.pop(kind, None)
                self._old_bands.discard(kind)
        self.visibility.refresh()

    def _look(self, run_id: str) -> tuple[str | None, int | None, bool]:
        return self._labels.get(run_id), self._colours.get(run_id), run_id == self._baseline

    def _apply_style(self, plot: CurvePlot, run_id: str) -> None:
        plot.set_curve(
            run_id,
            colour_index=self._colours.get(run_id),
            label=self._labels.get(run_id),
            short=f"#{run_id}",
            dashed=run_id == self._baseline,
        )

    def _connect_plot(self, kind: PlotKind, plot: CurvePlot) -> None:
        plot.curves.coloured_best_markers = True
        plot.zoom_points_wanted.connect(partial(self._want_zoom_points, kind))

    def _export(self, kind: PlotKind, action: PlotAction) -> None:
        plot = self._plots[kind]
        runs = {
            run_id: self._labels.get(run_id, f"#{run_id}")
            for run_id in self._runs_of(kind)
            if not self._groups or any(run_id in group.run_ids for group in self._groups)
        }
        self.export_wanted.emit(action, plot, self._series[kind], runs)

    def _apply_x_scales(self, plot: CurvePlot) -> None:
        plot.set_x_scale(XScale(self.toolbar.x_kind))
        for run_id in plot.curves:
            if run_id in self._scales:
                plot.set_curve_x_scale(run_id, self._scales[run_id])

    def _runs_of(self, kind: PlotKind) -> list[str]:
        """The runs that have points in a plot."""
        return list(self._apart.get(kind, ()) if self._groups else self._plots[kind].curves)

    def _set_apart(self, kind: PlotKind, plot: CurvePlot, run_id: str) -> None:
        self._apart.setdefault(kind, {})[run_id] = plot.remove_curve(run_id)

    def _update_bands(self) -> None:
        for kind in sorted(self._old_bands, key=self._sort_key):
            plot = self._plots[kind]
            if plot.visibleRegion().isEmpty():
                continue
            self._old_bands.discard(kind)
            curves = self._apart.get(kind, {})
            for place, group in enumerate(self._groups):
                self._show_band(plot, group, curves, place)

    def _show_band(
        self, plot: CurvePlot, group: RunGroup, curves: Mapping[str, Curve], place: int
    ) -> None:
        lines = [curves[run_id].series.line() for run_id in group.run_ids if run_id in curves]
        lines = [line for line in lines if len(line[0])]
        name = f"{_GROUP}{group.name}"
        if not lines:
            if name in plot.curves:
                plot.remove_curve(name)
            return
        text = self.tr("{group}, mean of {count} runs ± sd")
        if len(lines) == 1:
            text = self.tr("{group}, 1 run")
        plot.set_band(
            name,
            band_of(lines),
            colour_index=self._group_colours[group.name],
            label=text.format(group=group.name, count=len(lines)),
            short=group.name,
            about=deviation_text(),
        )
        if plot.curves[name].order != (0, place):
            plot.set_curve(name, order=(0, place))

    def _want_zoom_points(self, kind: PlotKind, run_id: str, first: float, last: float) -> None:
        self.zoom_points_wanted.emit(run_id, self._series[kind], first, last)


def deviation_text() -> str:
    """Say what the area around a mean is."""
    return translate(
        "ComparisonPlots",
        "The area is ± one standard deviation of a sample (n − 1), as in the table.\n"
        "Between its points a run is interpolated. Where some runs have no data,\n"
        "the mean is of the others, and the value says n.",
    )


def _coloured(names: Sequence[str], before: Mapping[str, int]) -> dict[str, int]:
    """Give each name its colour of `before`, or the first free one."""
    colours = {name: before[name] for name in names if name in before}
    for name in names:
        free = (index for index in count() if index not in colours.values())
        colours.setdefault(name, next(free))
    return colours


def comparison_style(
    series: str, metric_directions: Mapping[str, str] = NO_OVERRIDES
) -> SeriesStyle | None:
    """Return the plot and the style of `series` in the comparison; None if it is not drawn. Every
    series has its own plot there, because the colours identify the runs."""
    style = style_of(series, metric_directions)
    if style is None:
        return None
    kind = style.plot._replace(is_stacked=False)  # the curves are those of several runs
    is_validation = series.startswith("validation/")
    if is_named_by_script(series):
        return style._replace(plot=kind._replace(title=series, rank=kind.rank + 1))
    if kind == LOSS:
        return style._replace(plot=VALIDATION_LOSS if is_validation else TRAIN_LOSS)
    title = (
        kind.title
        if is_validation or kind.rank > METRIC_RANK
        else translate("Plots", "{metric} (training)").format(metric=display_name(kind.title))
    )
    return style._replace(plot=kind._replace(title=title, rank=kind.rank + 1))
