"""The plots of the comparison: a curve for each run, in the colour that the run has everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import numpy as np
from PySide6.QtCore import Signal
from PySide6.QtGui import QGuiApplication, QResizeEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from engine.client import RunInfo
from engine.store_reader import Curve
from gui.compare.curve_tail import News
from gui.compare.places import place
from gui.plots.curve_plot import CurvePlot
from gui.plots.picture import for_clipboard
from gui.plots.placement import Placement
from gui.plots.plot_bar import PlotBar
from gui.plots.plot_menu import PlotAction
from gui.plots.ranges import union
from gui.plots.routes import PlotKind
from gui.plots.x_scale import XScale
from gui.theme import Theme


class ComparisonPlots(QWidget):
    """Curves are named by the id of their run. `tick` paints, a plot at a time."""

    finer_wanted = Signal(str, str, float, float)
    """Id of a run, its series, and the steps between which finer points would show."""

    def __init__(self, theme: Theme, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._theme = theme
        self._plots: dict[PlotKind, CurvePlot] = {}
        self._labels: dict[str, str] = {}
        self._colours: dict[str, int] = {}
        self._baseline: str | None = None
        self._next = 0
        self._series: dict[PlotKind, str] = {}
        self._scales: dict[str, XScale] = {}
        self.bar = PlotBar(theme)
        self.bar.markers.hide()  # of several runs they would be a crowd
        self.placement = Placement(self._plots, None, self)
        self.bar.plots_menu.aboutToShow.connect(lambda: self.placement.fill(self.bar.plots_menu))
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self.bar)
        layout.addWidget(self.placement.panel, 1)
        self.bar.smoothing_changed.connect(self._set_smoothing)
        self.bar.raw.toggled.connect(self._set_show_raw)
        self.bar.log_y.toggled.connect(self._set_log_y)
        self.bar.follow.toggled.connect(self._set_follow)
        self.bar.fit.clicked.connect(self.fit)

    def plots(self) -> list[CurvePlot]:
        """The plots, in their order."""
        return list(self._plots.values())

    def plot(self, title: str) -> CurvePlot:
        """The plot called `title`; KeyError where there is none."""
        return {plot.title: plot for plot in self.plots()}[title]

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

    def take(self, run_id: str, news: News) -> None:
        """Take new points of a run."""
        where = place(news.series)
        if where is None or run_id not in self._colours:
            return
        self._series[where.plot] = news.series
        plot = self._plot(where.plot)
        if run_id not in plot.curve_names():
            plot.set_curve(run_id, smooth=where.smooth)
            self._dress(plot, run_id)
            self._set_scales(plot)
        steps, times = news.curve.step, news.curve.time
        values = np.asarray(news.curve.value, dtype=np.float64) * where.factor
        if news.replaces:
            coarse = news.curve.count > len(steps)
            plot.set_points(run_id, steps, values, times, coarse=coarse)
        else:
            plot.add_points(run_id, steps, values, times)
        plot.set_headline(" ")

    def set_finer(self, run_id: str, series: str, curve: Curve, *, exact: bool) -> None:
        """Take finer points of a part of a curve: the answer to `finer_wanted`."""
        where = place(series)
        if where is not None and where.plot in self._plots:
            values = np.asarray(curve.value, dtype=np.float64) * where.factor
            plot = self._plots[where.plot]
            plot.set_finer(run_id, curve.step, values, curve.time, exact=exact)

    def set_x_scales(self, scales: Mapping[str, XScale]) -> None:
        """Place the curves of each run on its own horizontal axis: time and epochs are counted
        from the run's beginning."""
        if scales != self._scales:
            self._scales = dict(scales)
            for plot in self.plots():
                self._set_scales(plot)

    def clear(self) -> None:
        """Forget every curve and every plot."""
        self.placement.show_all()
        for plot in self.plots():
            self.placement.remove(plot)
        self._plots.clear()
        self._series.clear()
        self.placement.refresh()

    def fit(self) -> None:
        """Show everything in every plot."""
        for plot in self.plots():
            plot.set_follow(self.bar.follow.isChecked())
            plot.fit()

    def set_theme(self, theme: Theme) -> None:
        """Take the colours of `theme`."""
        self._theme = theme
        self.bar.set_theme(theme)
        for plot in self.plots():
            plot.set_theme(theme)

    def tick(self) -> None:
        """Paint the next plot that has changed, if any."""
        plots = self.plots()
        linked = self.bar.link_x.isChecked()
        extent = union(plot.x_range() for plot in plots) if linked else None
        for plot in plots:
            plot.set_x_extent(extent)
        for _ in plots:
            self._next = (self._next + 1) % len(plots)
            if plots[self._next].refresh():
                return

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Use two columns or three."""
        super().resizeEvent(event)
        self.placement.refresh()

    def _dress(self, plot: CurvePlot, run_id: str) -> None:
        plot.set_curve(
            run_id,
            colour_index=self._colours.get(run_id),
            label=self._labels.get(run_id),
            dashed=run_id == self._baseline,
        )

    def _plot(self, kind: PlotKind) -> CurvePlot:
        if kind not in self._plots:
            plot = CurvePlot(
                kind.title,
                unit=kind.unit,
                value_format=kind.value_format,
                y_range=kind.y_range,
                theme=self._theme,
            )
            plot.set_smoothing(self.bar.smoothing)
            plot.set_show_raw(self.bar.raw.isChecked())
            plot.set_log_y(kind.may_be_log and self.bar.log_y.isChecked())
            plot.set_follow(self.bar.follow.isChecked())
            plot.hovered.connect(self._hovered)
            plot.zoomed.connect(lambda first, last: self._zoomed(plot, first, last))
            plot.followed.connect(self._followed)
            plot.fitted.connect(self.fit)
            plot.finer_wanted.connect(partial(self._want_finer, kind))
            for action, entry in plot.header.menu.entries.items():
                entry.setVisible(not action.is_export or action is PlotAction.COPY_PICTURE)
            plot.header.menu.chosen.connect(partial(self._do, kind))
            plot.header.double_clicked.connect(partial(self._do, kind, PlotAction.ENLARGE))
            by_place = sorted(
                (*self._plots.items(), (kind, plot)), key=lambda item: (item[0].rank, item[0].title)
            )
            self._plots.clear()
            self._plots.update(by_place)
            self.placement.refresh()
        return self._plots[kind]

    def _do(self, kind: PlotKind, action: PlotAction) -> None:
        if action is PlotAction.COPY_PICTURE:
            QGuiApplication.clipboard().setMimeData(for_clipboard(self._plots[kind]))
        else:
            self.placement.do(kind, action)

    def _set_scales(self, plot: CurvePlot) -> None:
        plot.set_x_scale(XScale(self.bar.x_kind))
        for run_id in plot.curve_names():
            if run_id in self._scales:
                plot.set_curve_x_scale(run_id, self._scales[run_id])

    def _set_smoothing(self, smoothing: float) -> None:
        for plot in self.plots():
            plot.set_smoothing(smoothing)

    def _set_show_raw(self, show: bool) -> None:
        for plot in self.plots():
            plot.set_show_raw(show)

    def _want_finer(self, kind: PlotKind, run_id: str, first: float, last: float) -> None:
        self.finer_wanted.emit(run_id, self._series[kind], first, last)

    def _set_log_y(self, log: bool) -> None:
        for kind, plot in self._plots.items():
            plot.set_log_y(kind.may_be_log and log)

    def _set_follow(self, follow: bool) -> None:
        for plot in self.plots():
            plot.set_follow(follow)

    def _followed(self, follow: bool) -> None:
        if not follow and self.bar.link_x.isChecked():
            self.bar.follow.setChecked(False)

    def _hovered(self, x: float | None) -> None:
        for plot in self.plots():
            plot.set_crosshair(x)

    def _zoomed(self, moved: CurvePlot, first: float, last: float) -> None:
        if self.bar.link_x.isChecked():
            for plot in self.plots():
                if plot is not moved:
                    plot.canvas.show_x((first, last))
