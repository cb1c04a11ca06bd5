"""Connects the plots with the store of the watched run: its points, zoom points and exports."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from gui.bridge.background import Background
from gui.bridge.curves.zoom_reader import ZoomReader
from gui.bridge.files.kept_checkpoints import KeptCheckpoints
from gui.bridge.settings_history import SettingsEdits
from gui.bridge.store_reader import StoreReader
from gui.compare.comparison_plots import ComparisonPlots
from gui.plots.export.exporter import PlotExport
from gui.plots.panel.keyboard import PlotKeys
from gui.plots.panel.run_plots import RunPlots


class PlotsController(QObject):
    """Passes the points and events of the watched run to its plots, and exports plots."""

    message = Signal(str)
    """A sentence for the status bar."""

    def __init__(
        self,
        plots: RunPlots,
        compared: ComparisonPlots,
        reader: StoreReader,
        background: Background,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._plots = plots
        self._compared = compared
        self.keys = PlotKeys([plots, compared], self)
        self.zoom_reader = ZoomReader(background, self)
        self.kept = KeptCheckpoints(background, self)
        self.edits = SettingsEdits(background, self)
        self.export = PlotExport(background, parent=self)
        reader.points.connect(plots.add_points)
        reader.curve.connect(plots.set_points)
        reader.events.connect(plots.add_events)
        reader.events.connect(self.kept.add_events)
        self.kept.changed.connect(plots.set_kept_checkpoints)
        reader.events.connect(self.edits.add_events)
        self.edits.changed.connect(plots.set_edits)
        self.edits.trouble.connect(self.message)
        reader.status_changed.connect(self.export.show_info)
        reader.status_changed.connect(lambda _: plots.show_newest())
        plots.zoom_points_wanted.connect(self.zoom_reader.request)
        plots.export_wanted.connect(self.export.export)
        compared.export_wanted.connect(self.export.export_runs)
        self.zoom_reader.zoom_points.connect(plots.set_zoom_points)
        self.zoom_reader.trouble.connect(self.message)
        self.export.message.connect(self.message)

    def watch(self, run_id: str | None) -> None:
        """Clear the plots and show the run `run_id`."""
        self._plots.clear()
        self.zoom_reader.watch(run_id)
        self.kept.watch(run_id)
        self.edits.watch(run_id)
        self.export.watch(run_id)

    def fit(self) -> None:
        """Reset the zoom of the visible plots: those of the run, or those of the comparison."""
        (self._compared if self._compared.isVisible() else self._plots).fit()
