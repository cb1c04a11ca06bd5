"""Everything around the list of runs: its panel, the desk behind it and the comparison."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from engine.client import RunInfo
from engine.spec import RunSpec
from gui.background import Background
from gui.compare.chosen import ChosenRuns
from gui.compare.comparison import Comparison
from gui.history_desk import HistoryDesk
from gui.history_panel import HistoryPanel
from gui.main_window import MainWindow
from gui.run_controller import RunController
from gui.run_form import RunForm
from gui.run_history import RunHistory
from gui.theme import ThemeController


class HistoryRoom(QObject):
    """Builds these parts for the window, and connects them once that stands."""

    leaving = Signal()
    """The watched run is about to be deleted: let go of it."""

    said = Signal(str)
    """A sentence for the person at the window."""

    def __init__(self, history: RunHistory, theme: ThemeController) -> None:
        super().__init__()
        self._history = history
        self.chosen = ChosenRuns(self)
        self.panel = HistoryPanel(history, self.chosen, theme.current)
        self.comparison = Comparison(self.chosen, theme.current)
        self.comparison.hide()
        theme.changed.connect(self.panel.set_theme)
        theme.changed.connect(self.comparison.set_theme)
        self.chosen.refused.connect(self.said)
        self.comparison.trouble.connect(self.said)
        self.comparison.closed.connect(self.close_comparison)

    def furnish(
        self, background: Background, controller: RunController, form: RunForm, window: MainWindow
    ) -> None:
        """Connect everything."""
        self._form, self._controller = form, controller
        self.desk = HistoryDesk(self._history, self.panel, self.chosen, background, window)
        self.desk.changed.connect(controller.refresh_runs)
        self.desk.failed.connect(self.said)
        self.desk.leaving.connect(self._leave)
        self.desk.again_requested.connect(self._run_again)
        self.panel.compare.toggled.connect(window.show_comparison)
        controller.runs_listed.connect(self.show_runs)

    def show_runs(self, infos: list[RunInfo]) -> None:
        """Take every run there is, newest first."""
        self.panel.show_runs(infos)
        self.comparison.show_runs(infos)

    def close_comparison(self) -> None:
        """Back to the single run."""
        self.panel.compare.setChecked(False)

    def _leave(self, run_id: str) -> None:
        self.comparison.leave(run_id)
        if run_id == self._history.watched:
            self.leaving.emit()

    def _run_again(self, spec: RunSpec) -> None:
        # The form shows what is started, so that problems stand beside the fields they are about.
        self._form.load(spec)
        self.said.emit("Starting the run…")
        self._controller.start(spec)
