"""All plots of a run: points find their plot by the name of their series."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from gui.plots.arrangement import Arrangement
from gui.plots.curve_plot import CurvePlot
from gui.plots.headlines import Headlines
from gui.plots.plot_bar import PlotBar
from gui.plots.pyramid import Array
from gui.plots.ranges import union
from gui.plots.routes import (
    DEVICE_MEMORY,
    DEVICE_PLOTS,
    DEVICE_UTILISATION,
    LOSS,
    THROUGHPUT,
    PlotKind,
    Route,
    route,
)
from gui.theme import Theme

_ALWAYS = (LOSS, DEVICE_UTILISATION, DEVICE_MEMORY)


class PlotGrid(QWidget):
    """The bar and the plots; `tick` paints, a plot at a time."""

    def __init__(
        self, theme: Theme, *, throughput: bool = False, parent: QWidget | None = None
    ) -> None:
        """`throughput`: whether `train/samples_per_second` gets a plot, too."""
        super().__init__(parent)
        self._theme = theme
        self._throughput = throughput
        self._plots: dict[PlotKind, CurvePlot] = {}
        self._device_labels: dict[str, str] = {}
        self._headlines = Headlines()
        self._best: dict[str, float] = {}
        self._next = 0
        self._ranks: set[int] = set()
        self.bar = PlotBar(theme)
        self._arrangement = Arrangement()
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self.bar)
        layout.addWidget(self._arrangement, 1)
        for kind in _ALWAYS:
            self._plot(kind)
        self.bar.smoothing_changed.connect(self._set_smoothing)
        self.bar.raw.toggled.connect(self._set_show_raw)
        self.bar.log_y.toggled.connect(self._set_log_y)
        self.bar.follow.toggled.connect(self.set_follow)
        self.bar.fit.clicked.connect(self.fit)

    def plots(self) -> list[CurvePlot]:
        """The plots, in their order."""
        return list(self._plots.values())

    def plot(self, title: str) -> CurvePlot:
        """The plot called `title`; KeyError where there is none."""
        return {plot.title: plot for plot in self._plots.values()}[title]

    def add_points(self, series: str, steps: Array, values: Array) -> None:
        """Append points of the engine's `series`, with ascending steps."""
        self._take(series, steps, values, replace=False)

    def set_points(self, series: str, steps: Array, values: Array) -> None:
        """Replace the points of the engine's `series`."""
        self._take(series, steps, values, replace=True)

    def clear(self) -> None:
        """Forget the run: the plots of its metrics go, the others are empty."""
        for kind, plot in list(self._plots.items()):
            plot.clear()
            if kind not in _ALWAYS:
                self._arrangement.remove(plot)
                del self._plots[kind]
        self._headlines.clear()
        self._best.clear()
        self._ranks.clear()
        self._arrangement.show_plots(self._plots)

    def set_device_labels(self, labels: Mapping[str, str]) -> None:
        """Name the devices; their order decides their colours, as in the list of devices."""
        if labels == self._device_labels and list(labels) == list(self._device_labels):
            return
        self._device_labels = dict(labels)
        for kind, plot in self._plots.items():
            for device in plot.curve_names() if kind in DEVICE_PLOTS else ():
                self._dress_device(plot, device)

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of `theme`."""
        self._theme = theme
        self.bar.set_theme(theme)
        for plot in self._plots.values():
            plot.set_theme(theme)

    def set_follow(self, follow: bool) -> None:
        """Let every plot go on to show everything, or hold it still."""
        self.bar.follow.setChecked(follow)
        for plot in self._plots.values():
            plot.set_follow(follow)

    def fit(self) -> None:
        """Show everything in every plot; those that were zoomed by hand follow again, if any do."""
        for plot in self._plots.values():
            self._fit(plot)

    def tick(self) -> None:
        """Paint the next plot that has changed, if any; a timer calls this for every frame."""
        linked = self.bar.link_x.isChecked()
        extent = union(plot.steps() for plot in self._plots.values()) if linked else None
        plots = self.plots()
        for plot in plots:
            plot.set_x_extent(extent)
        for _ in plots:
            self._next = (self._next + 1) % len(plots)
            if plots[self._next].refresh():
                return

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Use two columns or three."""
        super().resizeEvent(event)
        self._arrangement.show_plots(self._plots)

    def _take(self, series: str, steps: Array, values: Array, *, replace: bool) -> None:
        place = route(series)
        if place is None or (series == THROUGHPUT and not self._throughput):
            return
        plot = self._plot(place.plot)
        name = place.curve_name
        if name not in plot.curve_names():
            plot.set_curve(
                name,
                colour_index=place.colour_index,
                smooth=place.smooth,
                marks_gaps=place.marks_gaps,
            )
            if place.is_device:
                self._dress_device(plot, name)
            elif place.rank is not None:
                self._dress_ranks(place.rank)
        scaled = np.asarray(values, dtype=np.float64) * place.factor
        (plot.set_points if replace else plot.add_points)(name, steps, scaled)
        if place.best:
            self._mark_best(series, place, steps, scaled, replace=replace)
        if place.is_device or place.rank is not None:
            plot.set_headline(self._headlines.take(place, scaled, replace=replace))

    def _mark_best(
        self, series: str, place: Route, steps: Array, values: Array, *, replace: bool
    ) -> None:
        if replace:
            self._best.pop(series, None)
        merits = np.where(np.isfinite(values), place.best * values, -math.inf)
        if not len(merits):
            return
        top = int(np.argmax(merits))
        if merits[top] > self._best.get(series, -math.inf):
            self._best[series] = float(merits[top])
            self._plots[place.plot].mark_best(float(steps[top]), float(values[top]))

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
                plot.set_curve(name, label=f"r{number} {label}" if len(self._ranks) > 1 else label)

    def _plot(self, kind: PlotKind) -> CurvePlot:
        if kind not in self._plots:
            plot = self._plots[kind] = CurvePlot(
                kind.title,
                unit=kind.unit,
                value_format=kind.value_format,
                y_range=kind.y_range,
                wide_legend=kind.per_rank,
                theme=self._theme,
            )
            plot.set_smoothing(self.bar.smoothing)
            plot.set_show_raw(self.bar.raw.isChecked())
            plot.set_log_y(kind.may_be_log and self.bar.log_y.isChecked())
            plot.set_follow(self.bar.follow.isChecked())
            plot.hovered.connect(self._hovered)
            plot.zoomed.connect(lambda first, last: self._zoomed(plot, first, last))
            plot.followed.connect(self._followed)
            plot.fitted.connect(lambda: self._fitted(plot))
            self._plots = dict(sorted(self._plots.items(), key=lambda item: _place(item[0])))
            self._arrangement.show_plots(self._plots)
        return self._plots[kind]

    def _set_smoothing(self, smoothing: float) -> None:
        for plot in self._plots.values():
            plot.set_smoothing(smoothing)

    def _set_show_raw(self, show: bool) -> None:
        for plot in self._plots.values():
            plot.set_show_raw(show)

    def _set_log_y(self, log: bool) -> None:
        for kind, plot in self._plots.items():
            plot.set_log_y(kind.may_be_log and log)

    def _hovered(self, step: float | None) -> None:
        for plot in self._plots.values():
            plot.set_crosshair(step)

    def _zoomed(self, moved: CurvePlot, first: float, last: float) -> None:
        if self.bar.link_x.isChecked():
            for plot in self._plots.values():
                if plot is not moved:
                    plot.show_steps((first, last))

    def _followed(self, follow: bool) -> None:
        if not follow and self.bar.link_x.isChecked():
            self.set_follow(False)

    def _fitted(self, plot: CurvePlot) -> None:
        if self.bar.link_x.isChecked():
            self.fit()
        else:
            self._fit(plot)

    def _fit(self, plot: CurvePlot) -> None:
        plot.set_follow(self.bar.follow.isChecked())
        plot.fit()


def _place(kind: PlotKind) -> tuple[int, str]:
    return kind.rank, kind.title
