"""Builds what shows one run: the reader of its store, its figures and its plots."""

from __future__ import annotations

from PySide6.QtCore import QObject, QSettings

from gui.bridge.background import Background
from gui.bridge.store_reader import StoreReader
from gui.compare.comparison_plots import ComparisonPlots
from gui.plots.panel.repaint_timer import RepaintTimer
from gui.plots.panel.run_plots import RunPlots
from gui.plots_controller import PlotsController
from gui.run_view.run_figures import RunFigures
from gui.style.theme import ThemeController
from gui.window.main_window import MainWindow


class ShownRun(QObject):
    """Paints its plots while the window is visible."""

    def __init__(
        self,
        window: MainWindow,
        compared: ComparisonPlots,
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
        window.parts.plots.fill(self.plots)
        self.controller = PlotsController(self.plots, compared, self.reader, background, self)
        theme.changed.connect(self.plots.set_theme)
        window.reset_layout.triggered.connect(self.plots.reset_layout)
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
