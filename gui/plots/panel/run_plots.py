"""All plots of a run: draws each series in its plot, and the events of the run as markers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from PySide6.QtCore import QSettings, QTimer, Signal
from PySide6.QtWidgets import QWidget

from engine.messages.events import TrainingStarted
from engine.runs.run_state import STEP_SECONDS
from engine.runs.series_names import is_machine_memory
from engine.runs.store.store_reader import StoredEvent
from engine.runs.store.stored_points import StoredPoints
from engine.system.natural_order import natural_key
from gui.plots.data.headlines import Headlines
from gui.plots.data.run_timeline import Marker, RunTimeline
from gui.plots.data.series_style import (
    DEVICE_MEMORY,
    DEVICE_PLOTS,
    DEVICE_UTILISATION,
    LOGGED_RANK,
    LOSS,
    METRIC_RANK,
    STEP_PARTS,
    STEP_SHARES,
    STEP_TIME,
    STEP_TIME_BY_RANK,
    PlotKind,
    SeriesStyle,
    main_metric,
    style_of,
)
from gui.plots.data.share_scale import ShareScale
from gui.plots.data.step_breakdown import Parts, StepBreakdown
from gui.plots.panel.plot_panel import PlaceOfPlot, PlotPanel
from gui.plots.plot.curve_plot import CurvePlot
from gui.plots.plot.menu import PlotAction
from gui.style.device_labels import DeviceLabel
from gui.style.theme import Theme
from gui.widgets.panel_settings import PanelSettings

_IN_CARDS = ("train/", "validation/", "rank/")
"""How the names of series begin that the cards above the plots show too."""

_ALWAYS_SHOWN = (LOSS, DEVICE_UTILISATION, DEVICE_MEMORY)


_AT_ONCE, _PER_TURN = 24, 4
"""Plots that are made at once, and of more of them at each turn of the loop of events: a plot takes
some 20 ms, and the window answers in between."""


class RunPlots(PlotPanel):
    """The plots of the watched run. Series are named as the engine names them."""

    offers_steps = True
    zoom_points_wanted = Signal(str, float, float)
    """A series, and the steps between which a zoom needs more points: answer with
    `set_zoom_points`."""

    export_wanted = Signal(object, object, list)
    """PlotAction (to copy or save), the CurvePlot, and the series in it."""

    def __init__(
        self, theme: Theme, settings: QSettings | None = None, parent: QWidget | None = None
    ) -> None:
        """`settings` keep the layout and the choices of the toolbar."""
        super().__init__(theme, PanelSettings(settings, "plots"), parent)
        self._timeline = RunTimeline()
        self._headlines = Headlines()
        self._breakdown = StepBreakdown()
        self._shares = ShareScale()
        self._device_labels: dict[str, DeviceLabel] = {}
        self._metric_directions: Mapping[str, str] = {}
        self._ranks: set[int] = set()
        self._main: PlotKind | None = None
        self._kept: Mapping[int, bool] | None = None
        self._series: dict[tuple[PlotKind, str], str] = {}
        """The series of each curve, by plot and curve name."""

        self._waiting: dict[str, list[tuple[StoredPoints, bool]]] = {}
        """What comes of series whose plots are not made yet: points, and whether they replace."""

        self._room = _AT_ONCE
        """The number of plots that may be made before the next turn."""

        self._turn = QTimer(self, singleShot=True)
        self._turn.timeout.connect(self._draw_waiting)
        self.toolbar.x_chosen.connect(self._update_x_scale)
        self.toolbar.markers.toggled.connect(self._update_x_scale)
        for kind in _ALWAYS_SHOWN:
            self.plot_of(kind)

    def add_points(self, series: str, points: StoredPoints) -> None:
        """Append points to `series`. Where they stand for blocks of steps, a zoom asks for more
        points."""
        self._take(series, points, replace=False)

    def set_points(self, series: str, points: StoredPoints) -> None:
        """Replace the points of `series`."""
        self._take(series, points, replace=True)

    def set_zoom_points(self, series: str, points: StoredPoints) -> None:
        """Show these points where they are closer together than those of the whole series: the
        answer to `zoom_points_wanted`."""
        style = style_of(series)
        if style is not None and self._series.get((style.plot, style.curve_name)) == series:
            curve = style.plot, style.curve_name
            scaled = points.scaled(style.factor)
            if style.is_share:
                scaled = self._shares.scaled(curve, points, style.factor)
            self._plots[style.plot].set_zoom_points(style.curve_name, scaled)

    def out_of_sight(self) -> set[str]:
        """Return the series whose plot cannot be seen now, and which nothing else shows."""
        return {
            series
            for (kind, _), series in self._series.items()
            if not series.startswith(_IN_CARDS) and self._plots[kind].visibleRegion().isEmpty()
        }

    def set_kept_checkpoints(self, kept: Mapping[int, bool] | None) -> None:
        """Set the steps whose checkpoints are on disk, and of each whether it is the best one."""
        self._kept = kept
        for plot in self._plots.values():
            plot.canvas.markers.set_kept(kept)

    def set_edits(self, edits: Mapping[int, str]) -> None:
        """Set the changes of settings or devices before each attempt, by the attempt's number."""
        self._timeline.set_edits(edits)
        self._update_x_scale()

    def add_events(self, events: Sequence[StoredEvent]) -> None:
        """Add events of the run, oldest first: they define times and epochs of the points, and the
        markers."""
        self._timeline.add_events(events)
        for stored in events:
            if isinstance(stored.event, TrainingStarted):
                self._set_metric_directions(stored.event.metric_directions)
                note = "" if stored.event.validates else "no validation data"
                self.plot_of(LOSS).set_note(note)
        self._update_x_scale()

    def clear(self) -> None:
        """Forget the run: remove the plots of its metrics and empty the others. The names of the
        devices stay."""
        self.visibility.show_all()
        self._headlines.clear()
        self._breakdown.clear()
        self._shares.clear()
        self._metric_directions = {}
        self._ranks.clear()
        self._main = None
        self._series.clear()
        self._waiting.clear()
        self._room = _AT_ONCE
        self._timeline.clear()
        self.set_kept_checkpoints(None)
        for kind, plot in list(self._plots.items()):
            plot.clear()
            if kind not in _ALWAYS_SHOWN:
                self._remove(kind)
        self.begin()
        self._update_x_scale()
        self.visibility.refresh()

    def set_device_labels(self, labels: Mapping[str, DeviceLabel]) -> None:
        """Name and colour the curves of the devices; `labels` are by device id."""
        if labels == self._device_labels:
            return
        self._device_labels = dict(labels)
        for kind, plot in self._plots.items():
            for device in list(plot.curves) if kind in DEVICE_PLOTS else ():
                self._label_device(plot, device)

    def tick(self) -> bool:
        """Repaint the next plot, with the newest parts of the step time."""
        self._take_breakdown()
        return super().tick()

    def show_newest(self) -> None:
        """Show the values of the newest points in all legends, also those of the step time."""
        self._take_breakdown()
        super().show_newest()

    def _take_breakdown(self) -> None:
        parts = self._breakdown.take()
        if parts is not None:
            self._draw_breakdown(parts)

    def _breakdown_plot(self) -> CurvePlot:
        """Return the plot of the step time, in ms once that is known."""
        if not self._breakdown.is_timed:
            return self.plot_of(STEP_SHARES)
        if STEP_SHARES in self._plots:
            self._remove(STEP_SHARES)
        return self.plot_of(STEP_TIME)

    def _draw_breakdown(self, parts: Parts) -> None:
        plot = self._breakdown_plot()
        if list(plot.curves) != list(parts.points):
            plot.clear()
        for place, (part, points) in enumerate(parts.points.items()):
            if part not in plot.curves:
                label, colour = STEP_PARTS[part]
                plot.set_curve(
                    part,
                    colour_index=colour,
                    label=label,
                    smooth=False,
                    order=(0, place),
                )
            (plot.set_points if parts.replaces else plot.add_points)(part, points)
            if part != STEP_SECONDS and self._breakdown.is_timed and len(points.value):
                newest = f"{points.value[-1]:{STEP_TIME.value_format}} {STEP_TIME.unit}"
                plot.set_headline(newest)

    def _set_metric_directions(self, metric_directions: Mapping[str, str]) -> None:
        """Move the best markers to the best values by the run's `min` or `max` of each metric."""
        if metric_directions == self._metric_directions:
            return
        self._metric_directions = metric_directions
        for (kind, name), series in self._series.items():
            style = style_of(series, metric_directions)
            if style is not None and kind in self._plots:
                self._plots[kind].set_curve(name, best_sign=style.best_sign)
        self._find_main_metric()

    def _take(self, series: str, points: StoredPoints, *, replace: bool) -> None:
        """Draw points now, or when the plot of their series may be made."""
        if series in self._waiting or (not self._room and self._lacks_plot(series)):
            self._waiting.setdefault(series, []).append((points, replace))
        else:
            self._draw_series(series, points, replace=replace)

    def _lacks_plot(self, series: str) -> bool:
        style = style_of(series, self._metric_directions)
        return style is not None and style.plot not in self._plots

    def _draw_waiting(self) -> None:
        """Make the next plots, in their natural order."""
        self._room = _PER_TURN if self._waiting else _AT_ONCE
        with self.visibility.refreshed_once():
            for series in sorted(self._waiting, key=self._place_of_series):
                if not self._room:
                    break
                for points, replace in self._waiting.pop(series):
                    self._draw_series(series, points, replace=replace)
        if self._waiting:
            self._turn.start()

    def _place_of_series(self, series: str) -> PlaceOfPlot:
        style = style_of(series, self._metric_directions)
        assert style is not None, "what has no plot does not wait for one"
        return self._sort_key(style.plot)

    def _draw_series(self, series: str, points: StoredPoints, *, replace: bool) -> None:
        style = style_of(series, self._metric_directions)
        if style is None:
            return
        if series == STEP_SECONDS:
            self._breakdown.add_step_seconds(points, replace=replace)
            self._breakdown_plot()
            return
        if style.plot == STEP_TIME_BY_RANK and style.rank is not None:
            part = series.rpartition("/")[2]
            self._breakdown.add(style.rank, part, points, replace=replace)
            self._breakdown_plot()
        plot = self.plot_of(style.plot)
        curve = style.plot, style.curve_name
        if self._series.get(curve, series) != series:
            if is_machine_memory(series):  # an old run has no other one
                return
            replace = True  # of the machine's memory by that of the run
        is_new, self._series[curve] = self._series.get(curve) != series, series
        was_empty = plot.is_empty
        if is_new:
            self._find_main_metric()
        if style.curve_name not in plot.curves:
            self._add_curve(plot, style)
        elif is_new and style.is_device:
            self._label_device(plot, style.curve_name)
        drawn: Sequence[StoredPoints] = [points.scaled(style.factor)]
        if style.is_share:
            drawn, replace = self._shares.add(curve, points, style.factor, replace=replace)
        for number, points in enumerate(drawn):
            is_first = replace and not number
            (plot.set_points if is_first else plot.add_points)(style.curve_name, points)
        if plot.is_empty != was_empty:
            self.visibility.refresh()
        if style.is_device or style.rank is not None:
            plot.set_headline(self._headlines.update(style, points.value, replace=replace))

    def _add_curve(self, plot: CurvePlot, style: SeriesStyle) -> None:
        plot.set_curve(
            style.curve_name,
            colour_index=style.colour_index,
            label=None if style.is_device else style.label,
            smooth=style.smooth,
            marks_gaps=style.marks_gaps,
            best_sign=style.best_sign,
            order=None if style.rank is None else (style.rank, style.colour_index or 0),
        )
        if style.is_device:
            self._label_device(plot, style.curve_name)
        elif style.rank is not None:
            self._ranks.add(style.rank)
            self._label_ranks()
            self.visibility.refresh()

    def _label_device(self, plot: CurvePlot, device: str) -> None:
        label = self._device_labels.get(device)
        if label is not None:
            short = label.name.partition(" ")[2]  # `3` of `GPU 3`: the title says device
            name = label.name
            if is_machine_memory(self._series.get((DEVICE_MEMORY, device), "")) and (
                plot is self._plots.get(DEVICE_MEMORY)
            ):
                name = f"{name} (whole machine)"
            plot.set_curve(device, colour_index=label.colour_index, label=name, short=short)

    def _label_ranks(self) -> None:
        """Name the curves of the ranks; with several ranks, each name has the number of its
        rank."""
        for kind, plot in self._plots.items():
            for name in plot.curves if kind.per_rank else ():
                label, _, number = name.rpartition(" ")
                if len(self._ranks) > 1:
                    label = f"r{number} {label}"
                plot.set_curve(name, label=label)

    def _find_main_metric(self) -> None:
        """Put the plot of the main metric beside that of the loss."""
        series = main_metric(self._series.values(), self._metric_directions)
        style = style_of(series, self._metric_directions)
        found = style and style.plot
        if found != self._main:
            self._main = found
            self._sort()
            self.visibility.refresh()

    def _sort_key(self, kind: PlotKind) -> PlaceOfPlot:
        return kind.rank, kind != self._main, natural_key(kind.title)

    def _has_use(self, kind: PlotKind) -> bool:
        """A plot without points has none beside those that have some: of the devices once the run
        learns, of the loss if the run has other metrics. A single rank needs no plot by rank."""
        if kind == STEP_TIME_BY_RANK:
            return len(self._ranks) > 1
        if kind not in _ALWAYS_SHOWN or not self._plots[kind].is_empty:
            return True
        return not any(
            (each.rank <= METRIC_RANK or each.rank == LOGGED_RANK) and not plot.is_empty
            for each, plot in self._plots.items()
        )

    def _connect_plot(self, kind: PlotKind, plot: CurvePlot) -> None:
        self._room = max(0, self._room - 1)
        self._turn.start()
        plot.zoom_points_wanted.connect(partial(self._want_zoom_points, kind))
        plot.canvas.markers.shows_checkpoints = kind == LOSS
        plot.canvas.markers.set_kept(self._kept)
        self._update_x_scale()

    def _export(self, kind: PlotKind, action: PlotAction) -> None:
        plot = self._plots[kind]
        series = [self._series[kind, name] for name in plot.curves if (kind, name) in self._series]
        if kind in (STEP_TIME, STEP_SHARES):
            series = self._breakdown.series
        self.export_wanted.emit(action, plot, series)

    def _want_zoom_points(
        self, kind: PlotKind, curve_name: str, first_step: float, last_step: float
    ) -> None:
        self.zoom_points_wanted.emit(self._series[kind, curve_name], first_step, last_step)

    def _update_x_scale(self) -> None:
        """Place points and markers on the horizontal axis that the toolbar has chosen."""
        scale = self._timeline.scale(self.toolbar.x_kind)
        marked = self.toolbar.markers.isChecked() and LOSS in self._plots
        markers = [self._with_step(each) for each in self._timeline.markers] if marked else []
        for plot in self._plots.values():
            plot.set_x_scale(scale)
            plot.canvas.set_markers(markers)

    def _with_step(self, marker: Marker) -> Marker:
        """Return `marker`; if only its time is known, with the step that the loss had then."""
        if not math.isnan(marker.step):
            return marker
        return marker._replace(step=self._plots[LOSS].curves.step_when(marker.time))
