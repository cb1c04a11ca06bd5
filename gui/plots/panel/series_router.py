"""Takes the series of a run to their plots: names, colours, units and headlines."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from engine.runs.store_reader import StoredPoints
from gui.plots.data.headlines import Headlines
from gui.plots.data.run_timeline import Marker
from gui.plots.data.series_style import DEVICE_PLOTS, LOSS, THROUGHPUT, PlotKind, spoken, style_of
from gui.plots.plot.curve_plot import CurvePlot
from gui.style.translation import translate


class SeriesRouter:
    """`plots` are the plots there are; `plot` gives one of a kind, and makes it if needed."""

    def __init__(
        self,
        plots: Mapping[PlotKind, CurvePlot],
        plot: Callable[[PlotKind], CurvePlot],
        *,
        throughput: bool,
    ) -> None:
        """`throughput`: whether `train/samples_per_second` gets a plot, too."""
        self._plots = plots
        self._plot = plot
        self._throughput = throughput
        self._device_labels: dict[str, str] = {}
        self.clear()

    def clear(self) -> None:
        """Forget the run; the names of the devices stay."""
        self._headlines = Headlines()
        self._ranks: set[int] = set()
        self._series: dict[tuple[PlotKind, str], str] = {}
        self._metric_directions: Mapping[str, str] = {}

    def set_metric_directions(self, metric_directions: Mapping[str, str]) -> None:
        """Take the run's `min` or `max` by metric: its stars move to the best values by these."""
        if metric_directions == self._metric_directions:
            return
        self._metric_directions = metric_directions
        for (kind, name), series in self._series.items():
            place = style_of(series, metric_directions)
            if place is not None and kind in self._plots:
                self._plots[kind].set_curve(name, best_sign=place.best_sign)

    def series(self, kind: PlotKind) -> list[str]:
        """The engine's names of what the plot of `kind` shows, in the order of its curves."""
        names = self._plots[kind].curve_names()
        return [self._series[kind, name] for name in names if (kind, name) in self._series]

    def series_of(self, kind: PlotKind, curve_name: str) -> str:
        """The engine's name of a curve; KeyError for an unknown one."""
        return self._series[kind, curve_name]

    def take(self, series: str, points: StoredPoints, *, replace: bool) -> None:
        """Append points to the curve of the engine's `series`, or `replace` them."""
        place = style_of(series, self._metric_directions)
        if place is None or (series == THROUGHPUT and not self._throughput):
            return
        plot = self._plot(place.plot)
        name = place.curve_name
        if name not in plot.curve_names():
            self._series[place.plot, name] = series
            order = None if place.rank is None else (place.rank, place.colour_index or 0)
            plot.set_curve(
                name,
                colour_index=place.colour_index,
                label=None if place.is_device else spoken(place.label),
                smooth=place.smooth,
                marks_gaps=place.marks_gaps,
                best_sign=place.best_sign,
                order=order,
            )
            if place.is_device:
                self._dress_device(plot, name)
            elif place.rank is not None:
                self._dress_ranks(place.rank)
        points = points.scaled(place.factor)
        (plot.set_points if replace else plot.add_points)(name, points)
        if place.is_device or place.rank is not None:
            plot.set_headline(self._headlines.take(place, points.value, replace=replace))

    def take_finer(self, series: str, points: StoredPoints) -> None:
        """Take finer points of a part of a curve."""
        place = style_of(series)
        if place is not None and place.plot in self._plots:
            plot = self._plots[place.plot]
            plot.set_finer(place.curve_name, points.scaled(place.factor))

    def placed(self, markers: Sequence[Marker]) -> list[Marker]:
        """`markers`, those whose time alone is known at the step that the loss had reached."""
        return [
            marker._replace(step=self._plots[LOSS].curves.step_when(marker.time))
            if math.isnan(marker.step)
            else marker
            for marker in markers
        ]

    def set_device_labels(self, labels: Mapping[str, str]) -> None:
        """Name the devices; their order decides their colours, as in the list of devices."""
        if labels == self._device_labels and list(labels) == list(self._device_labels):
            return
        self._device_labels = dict(labels)
        for kind, plot in self._plots.items():
            for device in plot.curve_names() if kind in DEVICE_PLOTS else ():
                self._dress_device(plot, device)

    def _dress_device(self, plot: CurvePlot, device: str) -> None:
        order = list(self._device_labels)
        index = order.index(device) if device in order else None
        plot.set_curve(device, colour_index=index, label=self._device_labels.get(device))

    def _dress_ranks(self, rank: int) -> None:
        """Name the curves of the ranks: as soon as there are several, with the rank's number."""
        self._ranks.add(rank)
        for kind, plot in self._plots.items():
            for name in plot.curve_names() if kind.per_rank else ():
                label, _, number = name.rpartition(" ")
                label = spoken(label)
                if len(self._ranks) > 1:
                    label = translate("Plots", "r{rank} {curve}").format(rank=number, curve=label)
                plot.set_curve(name, label=label)
