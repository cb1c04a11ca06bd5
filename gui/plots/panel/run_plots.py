"""All plots of a run: its series find their plots, its events their markers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from PySide6.QtCore import QSettings, Signal
from PySide6.QtWidgets import QWidget

from engine.messages.events import TrainingStarted
from engine.runs.store_reader import StoredEvent, StoredPoints
from gui.plots.data.run_timeline import RunTimeline
from gui.plots.data.series_style import DEVICE_MEMORY, DEVICE_UTILISATION, LOSS, PlotKind
from gui.plots.panel.panel_settings import Kept
from gui.plots.panel.plot_panel import PlotPanel
from gui.plots.panel.series_router import SeriesRouter
from gui.plots.plot.curve_plot import CurvePlot
from gui.plots.plot.menu import PlotAction
from gui.style.theme import Theme

_ALWAYS = (LOSS, DEVICE_UTILISATION, DEVICE_MEMORY)


class PlotGrid(PlotPanel):
    """The plots of the watched run."""

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
        """`settings` keep the layout and the choices of the bar. `throughput`: whether
        `train/samples_per_second` gets a plot, too."""
        super().__init__(theme, Kept(settings, "plots"), parent)
        self._timeline = RunTimeline()
        self._router = SeriesRouter(self._plots, self.plot_of, throughput=throughput)
        self.bar.x_chosen.connect(self._place_again)
        self.bar.markers.toggled.connect(self._place_again)
        for kind in _ALWAYS:
            self.plot_of(kind)

    def add_points(self, series: str, points: StoredPoints) -> None:
        """Append points of the engine's `series`; where they are rough, zooming in asks for finer
        ones."""
        self._router.take(series, points, replace=False)

    def set_points(self, series: str, points: StoredPoints) -> None:
        """Replace the points of the engine's `series`."""
        self._router.take(series, points, replace=True)

    def set_finer(self, series: str, points: StoredPoints) -> None:
        """Take finer points of a part of a series: the answer to `finer_wanted`."""
        self._router.take_finer(series, points)

    def set_edits(self, edits: Mapping[int, str]) -> None:
        """Say what was changed in the settings before an attempt, by its number."""
        self._timeline.set_edits(edits)

    def take_events(self, events: Sequence[StoredEvent]) -> None:
        """Take what happened to the run, oldest first: it decides where points stand in time and
        in epochs, and it is marked."""
        self._timeline.take(events)
        for stored in events:
            if isinstance(stored.event, TrainingStarted):
                self._router.set_metric_directions(stored.event.metric_directions)
        self._place_again()

    def clear(self) -> None:
        """Forget the run: the plots of its metrics go, the others are empty."""
        self.placement.show_all()
        self._router.clear()
        self._timeline.clear()
        for kind, plot in list(self._plots.items()):
            plot.clear()
            if kind not in _ALWAYS:
                self._remove(kind)
        self.begin()
        self._place_again()
        self.placement.refresh()

    def set_device_labels(self, labels: Mapping[str, str]) -> None:
        """Name the devices; their order decides their colours, as in the list of devices."""
        self._router.set_device_labels(labels)

    def _furnish(self, kind: PlotKind, plot: CurvePlot) -> None:
        plot.finer_wanted.connect(partial(self._want_finer, kind))
        self._place_again()

    def _export(self, kind: PlotKind, action: PlotAction) -> None:
        self.export_wanted.emit(action, self._plots[kind], self._router.series(kind))

    def _place_again(self) -> None:
        scale = self._timeline.scale(self.bar.x_kind)
        marked = self.bar.markers.isChecked() and self.has(LOSS)
        markers = self._router.placed(self._timeline.markers) if marked else []
        for plot in self._plots.values():
            plot.set_x_scale(scale)
            plot.canvas.set_markers(markers)

    def _want_finer(self, kind: PlotKind, curve_name: str, first: float, last: float) -> None:
        self.finer_wanted.emit(self._router.series_of(kind, curve_name), first, last)
