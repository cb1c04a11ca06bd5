"""The plots of the comparison: one curve per run, or the mean of each group of runs."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from typing import NamedTuple

from PySide6.QtCore import QSettings, Signal
from PySide6.QtWidgets import QWidget

from engine.runs.run_info import RunInfo
from engine.runs.series_names import series_title
from engine.runs.store.store_follower import CurveUpdate
from engine.runs.store.stored_points import StoredPoints
from engine.spec.metric_direction import NO_OVERRIDES
from gui.plots.data.band import Band, band_steps
from gui.plots.data.growing_pyramid import Array
from gui.plots.data.series import Series
from gui.plots.data.series_style import (
    LOSS,
    METRIC_RANK,
    TRAIN_LOSS,
    VALIDATION_LOSS,
    PlotKind,
    SeriesStyle,
    is_named_by_script,
    style_of,
)
from gui.plots.data.share_scale import ShareScale
from gui.plots.data.x_axis import XScale
from gui.plots.panel.plot_panel import PlotPanel
from gui.plots.plot.curve_plot import CurvePlot
from gui.plots.plot.menu import PlotAction
from gui.style.theme import Theme
from gui.widgets.panel_settings import PanelSettings

_GROUP = "group "
"""How the names of the curves of groups begin."""

DEVIATION = (
    "The area is ± one standard deviation of a sample (n − 1), as in the table.\n"
    "Between its points a run is interpolated. Where some runs have no data,\n"
    "the mean is of the others, and the value says n."
)
"""What the area around a mean is."""

MOST_THICK = 48
"""Curves of one plot that are drawn thick and, where colours repeat, dashed: those of more hide
each other, and take too long."""

_SECONDS_AT_ONCE = 0.008
"""For which curves are drawn, removed or averaged before the next event."""

_LEAST_STEPS = 8
"""Of this work are done at once however long they take, so that few runs change in one frame."""

_LINES_AT_ONCE = 50
"""Lines that are read for a mean, or runs that are forgotten, in one step."""


class RunGroup(NamedTuple):
    """Chosen runs that have one curve together."""

    name: str
    """What they have in common; differs from that of other groups."""

    run_ids: tuple[str, ...]


class _RunSeries(NamedTuple):
    """What one plot knows of one run, drawn or not."""

    series: Series
    style: SeriesStyle


class ComparisonPlots(PlotPanel):
    """The name of a curve is the id of its run, or that of a group with a prefix.

    While groups are shown, the curves of the runs get points, but are not drawn. What takes long
    with many runs is done in small steps, so that the window answers.
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
        self._runs: dict[PlotKind, dict[str, _RunSeries]] = {}
        self._unsettled: set[PlotKind] = set()
        """Plots that may draw other curves than they should."""

        self._old_bands: set[PlotKind] = set()
        self._gone: list[_RunSeries] = []
        """What was removed: to free the points of thousands of runs takes long."""

        self._steps: Iterator[None] | None = None
        """What remains to be done for them."""

        self.toolbar.markers.hide()  # markers of several runs would hide the curves

    def show_runs(
        self, infos: list[RunInfo], colours: Mapping[str, int], baseline: str | None
    ) -> None:
        """Draw, name and colour the curves of these runs; the curves of the baseline are dashed.

        `colours` are those of all runs that may get points; the others count in groups only.
        """
        before = {run_id: self._look(run_id) for run_id in self._labels}
        self._labels = {info.id: f"#{info.id} {info.name}" for info in infos}
        self._colours = dict(colours)
        self._baseline = baseline
        if before.keys() != self._labels.keys():
            self._rearrange(self._plots)
        changed = {run_id for run_id in self._labels if before.get(run_id) != self._look(run_id)}
        is_thin = len(self._labels) > MOST_THICK
        if is_thin != (len(before) > MOST_THICK):
            changed = set(self._labels)
        for plot in self.plots() if changed and not self._groups else ():
            for run_id in changed.intersection(plot.curves):
                self._apply_style(plot, run_id)

    def show_groups(self, groups: Iterable[RunGroup]) -> None:
        """Show one curve for each of these groups, the mean of its runs with their deviation; the
        next calls of `tick` draw them. Without any, show one curve per run."""
        before, self._groups = self._groups, tuple(groups)
        if self._groups == before:
            return
        names = [group.name for group in self._groups]
        self._group_colours = _coloured(names, self._group_colours)
        for plot in self._plots.values():
            for name in list(plot.curves):
                if name.startswith(_GROUP) and name.removeprefix(_GROUP) not in names:
                    plot.remove_curve(name)
        self._rearrange(() if self._groups and before else self._plots)

    def group_colours(self) -> dict[str, int]:
        """Return the colour index of each run's group, by the id of the run."""
        return {
            run_id: self._group_colours[group.name]
            for group in self._groups
            for run_id in group.run_ids
        }

    def tick(self) -> bool:
        """Go on with what has changed and can be seen, and repaint the next plot."""
        self._go_on()
        return bool(self._unsettled) or super().tick() or self._steps is not None

    @property
    def is_settled(self) -> bool:
        """Whether everything is drawn that can be seen."""
        return self._steps is None and not any(plot.is_stale for plot in self._plots.values())

    def add_points(
        self, run_id: str, update: CurveUpdate, metric_directions: Mapping[str, str] = NO_OVERRIDES
    ) -> None:
        """Add points to the curve of a run, or replace them. `metric_directions` (`min` or `max` by
        metric) decide which value is the best."""
        style = comparison_style(update.series, metric_directions)
        if style is None or run_id not in self._colours:
            return
        kind = style.plot
        self._series[kind] = update.series
        plot = self.plot_of(kind)
        runs = self._runs.setdefault(kind, {})
        if run_id not in runs:
            runs[run_id] = _RunSeries(Series(), style)
        if run_id in self._labels and not self._groups and run_id not in plot.curves:
            self._draw(kind, run_id)
        parts: Sequence[StoredPoints] = [update.points.scaled(style.factor)]
        replaces = update.replaces
        if style.is_share:
            share = kind, run_id
            parts, replaces = self._shares.add(share, update.points, style.factor, replace=replaces)
        if run_id in plot.curves:
            for number, part in enumerate(parts):
                (plot.set_points if replaces and not number else plot.add_points)(run_id, part)
        else:
            series = runs[run_id].series
            if replaces:
                series.clear()
            for part in parts:
                series.extend(part.step, part.value, part.time, part.statistics)
        if self._groups:
            self._old_bands.add(kind)

    def set_zoom_points(self, run_id: str, series: str, points: StoredPoints) -> None:
        """Set the zoom points of a curve: the answer to `zoom_points_wanted`."""
        style = comparison_style(series)
        if style is not None and style.plot in self._plots:
            scaled = points.scaled(style.factor)
            if style.is_share:
                scaled = self._shares.scaled((style.plot, run_id), points, style.factor)
            self._plots[style.plot].set_zoom_points(run_id, scaled)

    def set_x_scales(self, scales: Mapping[str, XScale]) -> None:
        """Place the curves of these runs on each run's own horizontal axis: time and epochs count
        from the beginning of the run."""
        changed = {
            run_id: scale for run_id, scale in scales.items() if self._scales.get(run_id) != scale
        }
        if not changed:
            return
        self._scales |= changed
        for plot in self._plots.values():
            plot.set_x_scale(XScale(self.toolbar.x_kind))
            for run_id in changed.keys() & set(plot.curves):
                plot.set_curve_x_scale(run_id, changed[run_id])
        if self._groups:
            self._old_bands |= self._plots.keys()

    def remove_runs(self, run_ids: Collection[str]) -> None:
        """Remove the curves of these runs, and the plots that have no other curve. The view of the
        other plots stays."""
        gone = set(run_ids)
        for kind, runs in list(self._runs.items()):
            for run_id in gone & runs.keys():
                self._gone.append(runs.pop(run_id))
                self._shares.remove((kind, run_id))
            if not runs:
                self._remove(kind)
                del self._series[kind], self._runs[kind]
        for run_id in gone:
            self._scales.pop(run_id, None)
        self._rearrange(self._plots)
        self.visibility.refresh()

    def _look(self, run_id: str) -> tuple[str | None, int | None, bool]:
        return self._labels.get(run_id), self._colours.get(run_id), run_id == self._baseline

    def _apply_style(self, plot: CurvePlot, run_id: str, style: SeriesStyle | None = None) -> None:
        plot.set_curve(
            run_id,
            smooth=style and style.smooth,
            marks_gaps=style and style.marks_gaps,
            best_sign=style and style.best_sign,
            colour_index=self._colours.get(run_id),
            label=self._labels.get(run_id),
            short=f"#{run_id}",
            dashed=run_id == self._baseline,
            thin=len(self._labels) > MOST_THICK,
        )

    def _connect_plot(self, kind: PlotKind, plot: CurvePlot) -> None:
        plot.curves.coloured_best_markers = True
        plot.set_x_scale(XScale(self.toolbar.x_kind))
        plot.zoom_points_wanted.connect(partial(self._want_zoom_points, kind))

    def _export(self, kind: PlotKind, action: PlotAction) -> None:
        plot = self._plots[kind]
        shown = {each for group in self._groups for each in group.run_ids} or self._labels.keys()
        runs = {
            run_id: self._labels.get(run_id, f"#{run_id}")
            for run_id in self._runs[kind]
            if run_id in shown
        }
        self.export_wanted.emit(action, plot, self._series[kind], runs)

    def _scale(self, run_id: str) -> XScale:
        """Return the horizontal axis of a run."""
        return self._scales.get(run_id) or XScale(self.toolbar.x_kind)

    def _rearrange(self, kinds: Iterable[PlotKind]) -> None:
        """Begin to draw in these plots the curves that should be there, and no others."""
        self._unsettled = (self._unsettled | set(kinds)) & self._plots.keys()
        self._old_bands = set(self._plots) if self._groups else set()
        self._steps = None
        self._go_on()

    def _go_on(self) -> None:
        """Do what remains to be done, for a few milliseconds; the next `tick` goes on."""
        if self._steps is None:
            self._steps = self._remaining()
        end = time.monotonic() + _SECONDS_AT_ONCE
        for number, _ in enumerate(self._steps, 1):
            if number >= _LEAST_STEPS and time.monotonic() >= end:
                return
        self._steps = None

    def _remaining(self) -> Iterator[None]:
        """Draw the curves that should be drawn, remove the others, and compute the means that have
        changed and can be seen."""
        for kind in sorted(self._unsettled, key=self._sort_key):
            plot, runs = self._plots[kind], self._runs.get(kind, {})
            wanted = [] if self._groups else [each for each in runs if each in self._labels]
            drawn = [name for name in plot.curves if not name.startswith(_GROUP)]
            for run_id in set(drawn).difference(wanted):
                plot.remove_curve(run_id)
                yield
            for run_id in wanted:
                if run_id not in plot.curves:
                    self._draw(kind, run_id)
                    yield
            self._unsettled.discard(kind)
        for kind in sorted(self._old_bands, key=self._sort_key):
            if not self._plots[kind].visibleRegion().isEmpty():
                self._old_bands.discard(kind)
                yield from self._draw_bands(kind)
        while self._gone:
            del self._gone[-_LINES_AT_ONCE:]
            yield

    def _draw(self, kind: PlotKind, run_id: str) -> None:
        plot, (series, style) = self._plots[kind], self._runs[kind][run_id]
        self._apply_style(plot, run_id, style)
        plot.show_series(run_id, series)
        plot.set_curve_x_scale(run_id, self._scale(run_id))

    def _draw_bands(self, kind: PlotKind) -> Iterator[None]:
        runs = self._runs.get(kind, {})
        for place, group in enumerate(self._groups):
            lines: list[tuple[Array, Array]] = []
            for number, run_id in enumerate(group.run_ids):
                if run_id in runs:
                    series, scale = runs[run_id].series, self._scale(run_id)
                    if series.x_scale != scale:
                        series.set_x_scale(scale)
                    lines.append(series.line())
                if number % _LINES_AT_ONCE == _LINES_AT_ONCE - 1:
                    yield
            lines = [line for line in lines if len(line[0])]
            for band in band_steps(lines):
                if band is None:
                    yield
                else:
                    self._show_band(self._plots[kind], group, band, place)

    def _show_band(self, plot: CurvePlot, group: RunGroup, band: Band, place: int) -> None:
        name = f"{_GROUP}{group.name}"
        if not band.curves:
            if name in plot.curves:
                plot.remove_curve(name)
            return
        text = f"{group.name}, mean of {band.curves:,} runs ± sd"
        if band.curves == 1:
            text = f"{group.name}, 1 run"
        plot.set_band(
            name,
            band,
            colour_index=self._group_colours[group.name],
            label=text,
            short=group.name,
            about=DEVIATION,
        )
        if plot.curves[name].order != (0, place):
            plot.set_curve(name, order=(0, place))

    def _want_zoom_points(self, kind: PlotKind, run_id: str, first: float, last: float) -> None:
        self.zoom_points_wanted.emit(run_id, self._series[kind], first, last)


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
    if is_named_by_script(series):
        return style._replace(plot=kind._replace(title=series, rank=kind.rank + 1))
    if kind == LOSS:
        is_validation = series.startswith("validation/")
        return style._replace(plot=VALIDATION_LOSS if is_validation else TRAIN_LOSS)
    title = kind.title if kind.rank > METRIC_RANK else series_title(series)
    return style._replace(plot=kind._replace(title=title, rank=kind.rank + 1))
