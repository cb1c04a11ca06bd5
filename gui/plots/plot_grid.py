"""All plots of a run: what they do together, and how they stand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from PySide6.QtCore import QSettings, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QVBoxLayout, QWidget

from engine.store_reader import StoredEvent
from gui.plots.curve_plot import CurvePlot
from gui.plots.placement import Placement
from gui.plots.plot_bar import PlotBar
from gui.plots.plot_menu import PlotAction
from gui.plots.pyramid import Array
from gui.plots.ranges import union
from gui.plots.routes import DEVICE_MEMORY, DEVICE_UTILISATION, LOSS, PlotKind
from gui.plots.run_course import RunCourse
from gui.plots.sorter import Sorter
from gui.theme import Theme

_ALWAYS = (LOSS, DEVICE_UTILISATION, DEVICE_MEMORY)


class PlotGrid(QWidget):
    """The bar and the plots; `tick` paints, a plot at a time."""

    finer_wanted = Signal(str, float, float)
    """The engine's name of a series, and the steps between which finer points of it would show: the
    answer goes to `set_finer`."""

    export_wanted = Signal(object, object, list)
    """PlotAction (to copy or save), the CurvePlot, and the engine's names of what it shows."""

    def __init__(
        self,
        theme: Theme,
        settings: QSettings | None = None,
        *,
        throughput: bool = False,
        parent: QWidget | None = None,
    ) -> None:
        """`settings` keep the layout. `throughput`: whether `train/samples_per_second` gets a plot,
        too."""
        super().__init__(parent)
        self._theme = theme
        self._plots: dict[PlotKind, CurvePlot] = {}
        self._next = 0
        self._course = RunCourse()
        self.placement = Placement(self._plots, settings, self)
        self._sorter = Sorter(self._plots, self._plot, throughput=throughput)
        self.bar = PlotBar(theme)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(8)
        layout.addWidget(self.bar)
        layout.addWidget(self.placement.panel, 1)
        for kind in _ALWAYS:
            self._plot(kind)
        menu = self.bar.plots_menu
        menu.aboutToShow.connect(lambda: self.placement.fill(menu))
        self.bar.smoothing_changed.connect(self._set_smoothing)
        self.bar.x_chosen.connect(self._place_again)
        self.bar.markers.toggled.connect(self._place_again)
        self.bar.raw.toggled.connect(self._set_show_raw)
        self.bar.log_y.toggled.connect(self._set_log_y)
        self.bar.follow.toggled.connect(self.set_follow)
        self.bar.fit.clicked.connect(self.fit)

    def plots(self) -> list[CurvePlot]:
        """The plots, in their order."""
        return [self._plots[kind] for kind in self.placement.kinds()]

    def plot(self, title: str) -> CurvePlot:
        """The plot called `title`; KeyError where there is none."""
        return {plot.title: plot for plot in self._plots.values()}[title]

    def add_points(
        self,
        series: str,
        steps: Array,
        values: Array,
        times: Array | None = None,
        coarse: bool = False,
    ) -> None:
        """Append points of the engine's `series`, with ascending steps and times (seconds since the
        epoch). `coarse` as for `set_points`."""
        self._sorter.take(series, steps, values, times, replace=False, coarse=coarse)

    def set_points(
        self,
        series: str,
        steps: Array,
        values: Array,
        times: Array | None = None,
        coarse: bool = False,
    ) -> None:
        """Replace the points of the engine's `series`. `coarse`: they stand for several each, so
        that zooming in asks for finer ones."""
        self._sorter.take(series, steps, values, times, replace=True, coarse=coarse)

    def set_finer(
        self, series: str, steps: Array, values: Array, times: Array, exact: bool
    ) -> None:
        """Take finer points of a part of a series; `exact`: all of them are there."""
        self._sorter.take_finer(series, steps, values, times, exact=exact)

    def take_events(self, events: Sequence[StoredEvent]) -> None:
        """Take what happened to the run, oldest first: it decides where points stand in time and
        in epochs, and it is marked."""
        self._course.take(events)
        self._place_again()

    def clear(self) -> None:
        """Forget the run: the plots of its metrics go, the others are empty."""
        self.placement.show_all()
        self._sorter.clear()
        self._course.clear()
        for kind, plot in list(self._plots.items()):
            plot.clear()
            if kind not in _ALWAYS:
                self.placement.remove(plot)
                del self._plots[kind]
        self._place_again()
        self.placement.refresh()

    def set_device_labels(self, labels: Mapping[str, str]) -> None:
        """Name the devices; their order decides their colours, as in the list of devices."""
        self._sorter.set_device_labels(labels)

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
        extent = union(plot.x_range() for plot in self._plots.values()) if linked else None
        plots = list(self._plots.values())
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

    def _plot(self, kind: PlotKind) -> CurvePlot:
        if kind not in self._plots:
            plot = CurvePlot(
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
            self._connect(kind, plot)
            by_place = sorted(
                (*self._plots.items(), (kind, plot)), key=lambda each: _place(each[0])
            )
            self._plots.clear()
            self._plots.update(by_place)
            self._place_again()
            self.placement.refresh()
        return self._plots[kind]

    def _connect(self, kind: PlotKind, plot: CurvePlot) -> None:
        plot.hovered.connect(self._hovered)
        plot.zoomed.connect(lambda first, last: self._zoomed(plot, first, last))
        plot.followed.connect(self._followed)
        plot.fitted.connect(lambda: self._fitted(plot))
        plot.finer_wanted.connect(partial(self._want_finer, kind))
        plot.header.menu.chosen.connect(partial(self._do, kind))
        plot.header.double_clicked.connect(partial(self._do, kind, PlotAction.ENLARGE))

    def _do(self, kind: PlotKind, action: PlotAction) -> None:
        if action.is_export:
            self.export_wanted.emit(action, self._plots[kind], self._sorter.series(kind))
        else:
            self.placement.do(kind, action)

    def _place_again(self) -> None:
        scale = self._course.scale(self.bar.x_kind)
        markers = self._sorter.placed(self._course.markers) if self.bar.markers.isChecked() else []
        for plot in self._plots.values():
            plot.set_x_scale(scale)
            plot.canvas.set_markers(markers)

    def _want_finer(self, kind: PlotKind, curve_name: str, first: float, last: float) -> None:
        self.finer_wanted.emit(self._sorter.series_of(kind, curve_name), first, last)

    def _set_smoothing(self, smoothing: float) -> None:
        for plot in self._plots.values():
            plot.set_smoothing(smoothing)

    def _set_show_raw(self, show: bool) -> None:
        for plot in self._plots.values():
            plot.set_show_raw(show)

    def _set_log_y(self, log: bool) -> None:
        for kind, plot in self._plots.items():
            plot.set_log_y(kind.may_be_log and log)

    def _hovered(self, x: float | None) -> None:
        for plot in self._plots.values():
            plot.set_crosshair(x)

    def _zoomed(self, moved: CurvePlot, first: float, last: float) -> None:
        if self.bar.link_x.isChecked():
            for plot in self._plots.values():
                if plot is not moved:
                    plot.canvas.show_x((first, last))

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
