"""What computes with curves: the reader of the shown run, its figures, the plots, the comparison.

NumPy and pyqtgraph, which this needs, take longer to import than the window to appear: so `app.py`
imports this module after the window was painted.
"""

from __future__ import annotations

from PySide6.QtCore import QObject, QSettings

from gui.bridge.background import Background
from gui.bridge.store_reader import StoreReader
from gui.compare.comparison import Comparison
from gui.plots.panel.repaint_timer import RepaintTimer
from gui.plots.panel.run_plots import RunPlots
from gui.plots_controller import PlotsController
from gui.run_list.chosen_runs import ChosenRuns
from gui.run_view.run_figures import RunFigures
from gui.runs_table.runs_page import RunsPage
from gui.style.theme import ThemeController
from gui.sweeps.sweeps_page import SweepsPage
from gui.window.main_window import MainWindow


class Curves(QObject):
    """Makes these parts; `app.py` connects them with the others."""

    def __init__(
        self,
        window: MainWindow,
        chosen: ChosenRuns,
        background: Background,
        theme: ThemeController,
        settings: QSettings,
    ) -> None:
        super().__init__(window)
        self._window = window
        self.reader = StoreReader(background.machines, self)
        self.figures = RunFigures(self)
        self.plots = RunPlots(theme.current, settings)
        self.reader.out_of_sight = self.plots.out_of_sight
        self.comparison = Comparison(chosen, background, theme.current, settings)
        self.runs_page = RunsPage(chosen, self.comparison, background, theme.current, settings)
        self.sweeps_page = SweepsPage(background, theme.current, settings)
        self.controller = PlotsController(
            self.plots, self.comparison.plots, self.reader, background, self
        )
        for themed in (self.plots, self.comparison, self.runs_page, self.sweeps_page):
            theme.changed.connect(themed.set_theme)
        window.reset_layout.triggered.connect(self.plots.reset_layout)
        window.reset_layout.triggered.connect(self.comparison.reset_layout)
        window.reset_layout.triggered.connect(self.runs_page.reset_layout)
        window.reset_layout.triggered.connect(self.sweeps_page.reset_layout)
        window.fit.triggered.connect(self.controller.fit)
        self._repaint_timer = RepaintTimer(self._repaint, self)
        self._repaint_timer.start()

    def stop(self) -> None:
        """Read and paint no more."""
        self._repaint_timer.stop()
        self.reader.watch(None)
        self.controller.kept.watch(None)

    def _repaint(self) -> bool:
        window = self._window
        return window.isVisible() and not window.isMinimized() and self.plots.tick()
