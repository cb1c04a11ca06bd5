"""All plots of a run: draws each series in its plot, and the events of the run as markers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial

from PySide6.QtCore import QSettings, Signal
from PySide6.QtWidgets import QWidget

from engine.messages.events import TrainingStarted
from engine.runs.store_reader import StoredEvent, StoredPoints
from gui.plots.data.headlines import Headlines
from gui.plots.data.run_timeline import Marker, RunTimeline
from gui.plots.data.series_style import (
    DEVICE_MEMORY,
    DEVICE_PLOTS,
    DEVICE_UTILISATION,
    LOSS,
    THROUGHPUT,
    PlotKind,
    SeriesStyle,
    display_name,
    style_of,
)
from gui.plots.panel.panel_settings import PanelSettings
from gui.plots.panel.plot_panel import PlotPanel
from gui.plots.plot.curve_plot import CurvePlot
from gui.plots.plot.menu import PlotAction
from gui.style.device_labels import DeviceLabel
from gui.style.theme import Theme
from gui.style.translation import translate

_ALWAYS_SHOWN = (LOSS, DEVICE_UTILISATION, DEVICE_MEMORY)


class RunPlots(PlotPanel):
    """The plots of the watched run. Series are named as the engine names them."""

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
        self._device_labels: dict[str, DeviceLabel] = {}
        self._metric_directions: Mapping[str, str] = {}
        self._ranks: set[int] = set()
        self._series: dict[tuple[PlotKind, str], str] = {}
        """The series of each curve, by plot and curve name."""

        self.toolbar.x_chosen.connect(self._update_x_scale)
        self.toolbar.markers.toggled.connect(self._update_x_scale)
        for kind in _ALWAYS_SHOWN:
            self.plot_of(kind)

    def add_points(self, series: str, points: StoredPoints) -> None:
        """Append points to `series`. Where they stand for blocks of steps, a zoom asks for more
        points."""
        self._draw_series(series, points, replace=False)

    def set_points(self, series: str, points: StoredPoints) -> None:
        """Replace the points of `series`."""
        self._draw_series(series, points, replace=True)

    def set_zoom_points(self, series: str, points: StoredPoints) -> None:
        """Show these points where they are closer together than those of the whole series: the
        answer to `zoom_points_wanted`."""
        style = style_of(series)
        if style is not None and style.plot in self._plots:
            plot = self._plots[style.plot]
            plot.set_zoom_points(style.curve_name, points.scaled(style.factor))

    def set_edits(self, edits: Mapping[int, str]) -> None:
        """Set the changes of settings or devices before each attempt, by the attempt's number."""
        self._timeline.set_edits(edits)

    def add_events(self, events: Sequence[StoredEvent]) -> None:
        """Add events of the run, oldest first: they define times and epochs of the points, and the
        markers."""
        self._timeline.add_events(events)
        for stored in events:
            if isinstance(stored.event, TrainingStarted):
                self._set_metric_directions(stored.event.metric_directions)
        self._update_x_scale()

    def clear(self) -> None:
        """Forget the run: remove the plots of its metrics and empty the others. The names of the
        devices stay."""
        self.visibility.show_all()
        self._headlines.clear()
        self._metric_directions = {}
        self._ranks.clear()
        self._series.clear()
        self._timeline.clear()
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

    def _set_metric_directions(self, metric_directions: Mapping[str, str]) -> None:
        """Move the best markers to the best values by the run's `min` or `max` of each metric."""
        if metric_directions == self._metric_directions:
            return
        self._metric_directions = metric_directions
        for (kind, name), series in self._series.items():
            style = style_of(series, metric_directions)
            if style is not None and kind in self._plots:
                self._plots[kind].set_curve(name, best_sign=style.best_sign)

    def _draw_series(self, series: str, points: StoredPoints, *, replace: bool) -> None:
        style = style_of(series, self._metric_directions)
        if style is None or series == THROUGHPUT:  # a card of the window shows the throughput
            return
        plot = self.plot_of(style.plot)
        if style.curve_name not in plot.curves:
            self._add_curve(plot, style)
            self._series[style.plot, style.curve_name] = series
        points = points.scaled(style.factor)
        (plot.set_points if replace else plot.add_points)(style.curve_name, points)
        if style.is_device or style.rank is not None:
            plot.set_headline(self._headlines.update(style, points.value, replace=replace))

    def _add_curve(self, plot: CurvePlot, style: SeriesStyle) -> None:
        plot.set_curve(
            style.curve_name,
            colour_index=style.colour_index,
            label=None if style.is_device else display_name(style.label),
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

    def _label_device(self, plot: CurvePlot, device: str) -> None:
        label = self._device_labels.get(device)
        if label is not None:
            plot.set_curve(device, colour_index=label.colour_index, label=label.name)

    def _label_ranks(self) -> None:
        """Name the curves of the ranks; with several ranks, each name has the number of its
        rank."""
        for kind, plot in self._plots.items():
            for name in plot.curves if kind.per_rank else ():
                label, _, number = name.rpartition(" ")
                label = display_name(label)
                if len(self._ranks) > 1:
                    label = translate("Plots", "r{rank} {curve}").format(rank=number, curve=label)
                plot.set_curve(name, label=label)

    def _connect_plot(self, kind: PlotKind, plot: CurvePlot) -> None:
        plot.zoom_points_wanted.connect(partial(self._want_zoom_points, kind))
        self._update_x_scale()

    def _export(self, kind: PlotKind, action: PlotAction) -> None:
        plot = self._plots[kind]
        series = [self._series[kind, name] for name in plot.curves if (kind, name) in self._series]
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
