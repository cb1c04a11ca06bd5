"""Connects the plots with the store of the watched run: its points, finer points, and exports."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from gui.background import Background
from gui.finer_reader import FinerReader
from gui.plot_export import PlotExport
from gui.plots.plot_grid import PlotGrid
from gui.store_reader import StoreReader


class PlotDesk(QObject):
    """Everything between the plots and the store."""

    said = Signal(str)
    """A sentence for the status bar."""

    def __init__(
        self,
        plots: PlotGrid,
        reader: StoreReader,
        background: Background,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._plots = plots
        self.finer = FinerReader(background, self)
        self.export = PlotExport(background, parent=self)
        reader.points.connect(plots.add_points)
        reader.curve.connect(plots.set_points)
        reader.events.connect(plots.take_events)
        plots.finer_wanted.connect(self.finer.request)
        plots.export_wanted.connect(self.export.export)
        self.finer.finer.connect(plots.set_finer)
        self.finer.trouble.connect(self.said)
        self.export.said.connect(self.said)

    def watch(self, run_id: str | None) -> None:
        """Begin anew, with the run `run_id`."""
        self._plots.clear()
        self.finer.watch(run_id)
        self.export.watch(run_id)
