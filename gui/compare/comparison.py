"""The comparison: the plots of the chosen runs, and a table of their differences."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from PySide6.QtCore import QByteArray, QSettings, Qt, QTimer, Signal
from PySide6.QtGui import QHideEvent, QShowEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QSplitter, QVBoxLayout, QWidget

from engine.runs.run_info import RunInfo
from gui.bridge.background import Background
from gui.bridge.curve_reader import CurveReader
from gui.bridge.zoom_reader import ZoomReader
from gui.compare.comparison_plots import ComparisonPlots
from gui.compare.differences import figure_rows, setting_rows
from gui.compare.run_chips import RunChips
from gui.compare.table import ComparisonTable
from gui.plots.data.run_timeline import RunTimeline
from gui.plots.panel.panel_settings import PanelSettings
from gui.plots.panel.repaint_timer import RepaintTimer
from gui.run_list.chosen_runs import ChosenRuns
from gui.style.theme import Theme
from gui.widgets.plain_text import Label

LIVE_MS = 500
"""Interval at which the stores are read."""

_STRETCH = (3, 2)
_FIRST_SIZES = [share * 100 for share in _STRETCH]
_SPLITTER = "splitter"


class Comparison(QWidget):
    """Reads the stores of the chosen runs while it is visible."""

    closed = Signal()
    """The user wants to see the single run again."""

    trouble = Signal(str)
    """A sentence: why a run cannot be read."""

    def __init__(
        self,
        chosen: ChosenRuns,
        background: Background,
        theme: Theme,
        settings: QSettings | None = None,
        parent: QWidget | None = None,
    ) -> None:
        """`settings` keep the layout."""
        super().__init__(parent)
        self._chosen = chosen
        self._theme = theme
        self._infos_by_id: dict[str, RunInfo] = {}
        self._readers: dict[str, CurveReader] = {}
        self._timelines: dict[str, RunTimeline] = {}
        self._zoom_readers: dict[str, ZoomReader] = {}
        self._device_names: dict[str, str] = {}
        self._background = background
        self._reported: set[str] = set()
        self.chips = RunChips(theme)
        self._settings = PanelSettings(settings, "compare")
        self.plots = ComparisonPlots(theme, settings)
        self.table = ComparisonTable(theme)
        self._splitter = QSplitter(Qt.Orientation.Vertical)
        self._timer = QTimer(self)
        self._timer.setInterval(LIVE_MS)
        self._timer.timeout.connect(self.poll)
        self._build_layout()
        self._frames = RepaintTimer(self.plots.tick, self)
        self.plots.toolbar.x_chosen.connect(self._update_x_scales)
        self.plots.zoom_points_wanted.connect(self._read_zoom_points)
        self.chips.pin_clicked.connect(chosen.pin)
        self.chips.remove_clicked.connect(chosen.toggle)
        self.chips.close_clicked.connect(self.closed)
        chosen.changed.connect(self._update_runs)

    def set_device_names(self, names: Mapping[str, str]) -> None:
        """Set the names of the devices of this machine, by id."""
        self._device_names = dict(names)

    def show_runs(self, infos: list[RunInfo]) -> None:
        """Update the known runs."""
        self._infos_by_id = {info.id: info for info in infos}
        if self.isVisible():
            self._show_chosen()

    def poll(self) -> None:
        """Read new points and events; a timer calls this."""
        for run_id, reader in self._readers.items():
            for update in reader.poll():
                self.plots.add_points(run_id, update, reader.metric_directions)
            if reader.trouble:
                self._report(run_id, reader.trouble)
        self._update_x_scales()
        self._show_table()

    def set_theme(self, theme: Theme) -> None:
        """Apply the colours of `theme`."""
        self._theme = theme
        self.plots.set_theme(theme)
        self.table.set_theme(theme)
        self.chips.set_theme(theme)
        self._show_chosen()

    def reset_layout(self) -> None:
        """Reset the layout of plots, toolbar and table."""
        self.plots.reset_layout()
        self._splitter.setSizes(_FIRST_SIZES)
        self._settings.remove(_SPLITTER)

    def showEvent(self, event: QShowEvent) -> None:
        """Start to follow the chosen runs, or continue."""
        super().showEvent(event)
        self._timer.start()
        self._frames.start()
        for run_id in [run_id for run_id, reader in self._readers.items() if reader.trouble]:
            self._remove_run(run_id)  # it may be readable now
        self._update_runs()

    def hideEvent(self, event: QHideEvent) -> None:
        """Close the stores; the displayed curves stay until the comparison is shown again."""
        super().hideEvent(event)
        self._timer.stop()
        self._frames.stop()
        for reader in self._readers.values():
            reader.close()

    def _update_runs(self) -> None:
        wanted = self._chosen.ids()
        for run_id in [run_id for run_id in self._readers if run_id not in wanted]:
            self._remove_run(run_id)
        if not self.isVisible():
            return
        if not self._readers:
            self.plots.begin()
        for run_id in wanted:
            if run_id not in self._readers:
                timeline = self._timelines[run_id] = RunTimeline()
                self._readers[run_id] = CurveReader(run_id, timeline.add_events)
        self._show_chosen()
        self.poll()

    def _remove_run(self, run_id: str) -> None:
        self._readers.pop(run_id).close()
        del self._timelines[run_id]
        if reader := self._zoom_readers.pop(run_id, None):
            reader.watch(None)
            reader.deleteLater()
        self._reported.discard(run_id)
        self.plots.remove_run(run_id)

    def _update_x_scales(self) -> None:
        kind = self.plots.toolbar.x_kind
        self.plots.set_x_scales(
            {run_id: timeline.scale(kind) for run_id, timeline in self._timelines.items()}
        )

    def _read_zoom_points(self, run_id: str, series: str, first: float, last: float) -> None:
        if run_id not in self._readers:
            return
        if run_id not in self._zoom_readers:
            reader = self._zoom_readers[run_id] = ZoomReader(self._background, self)
            reader.watch(run_id)
            reader.zoom_points.connect(partial(self.plots.set_zoom_points, run_id))
            reader.trouble.connect(partial(self._report, run_id))
        self._zoom_readers[run_id].request(series, first, last)

    def _report(self, run_id: str, sentence: str) -> None:
        if run_id not in self._reported:
            self._reported.add(run_id)
            self.trouble.emit(sentence)

    def _infos(self) -> list[RunInfo]:
        return [self._infos_by_id[each] for each in self._chosen.ids() if each in self._infos_by_id]

    def _show_chosen(self) -> None:
        infos, colours, baseline = self._infos(), self._chosen.colours(), self._chosen.baseline
        self.chips.show_runs(infos, colours, baseline)
        self.plots.show_runs(infos, colours, baseline)
        self._show_table()

    def _show_table(self) -> None:
        infos, colours = self._infos(), self._chosen.colours()
        best = {run_id: reader.best for run_id, reader in self._readers.items()}
        self.table.show_rows(
            infos,
            [self._theme.curve(colours[info.id]) for info in infos],
            self._chosen.baseline,
            figure_rows(infos, best),
            setting_rows(infos, self._device_names),
        )

    def _store_sizes(self) -> None:
        self._settings.set_value(_SPLITTER, self._splitter.saveState())

    def _build_layout(self) -> None:
        card = QFrame()
        card.setObjectName("card")
        inside = QVBoxLayout(card)
        inside.setContentsMargins(10, 6, 6, 6)
        inside.addWidget(self.table)
        splitter = self._splitter
        splitter.addWidget(self.plots)
        splitter.addWidget(card)
        splitter.setChildrenCollapsible(False)
        for place, share in enumerate(_STRETCH):
            splitter.setStretchFactor(place, share)
        splitter.setSizes(_FIRST_SIZES)
        stored = self._settings.value(_SPLITTER)
        if isinstance(stored, QByteArray):
            splitter.restoreState(stored)
        splitter.splitterMoved.connect(self._store_sizes)
        title = Label(self.tr("COMPARISON"))
        title.setObjectName("h")
        above = QHBoxLayout()
        # The title is aligned with the first row of chips.
        title.setFixedHeight(self.chips.close_button.sizeHint().height())
        above.addWidget(title, 0, Qt.AlignmentFlag.AlignTop)
        above.addWidget(self.chips, 1)
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 6)
        layout.setSpacing(8)
        layout.addLayout(above)
        layout.addWidget(splitter, 1)
