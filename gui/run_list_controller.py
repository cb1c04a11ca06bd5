"""Everything around the list of runs: its panel, the desk behind it and the comparison."""

from __future__ import annotations

from PySide6.QtCore import QObject, QSettings, Signal

from engine.client import RunInfo
from engine.spec.run_spec import RunSpec
from engine.system import paths
from gui.bridge.background import Background
from gui.bridge.run_controller import RunController
from gui.compare.comparison import Comparison
from gui.run_form.run_form import RunForm
from gui.run_list.filter_sort import to_open
from gui.run_list.run_list_actions import RunListActions
from gui.run_list.run_list_panel import RunListPanel
from gui.run_list.run_list_view import RunListView
from gui.run_list.selection import ChosenRuns
from gui.style.theme import ThemeController
from gui.window.main_window import MainWindow


class RunListController(QObject):
    """Builds these parts for the window, and connects them once that stands."""

    wanted = Signal(object)
    """Id of a run that the window should show by itself, or None for none: the one that it shows
    is about to be deleted, is gone, or is none."""

    said = Signal(str)
    """A sentence for the person at the window."""

    def __init__(self, history: RunListView, theme: ThemeController, settings: QSettings) -> None:
        super().__init__()
        self._history = history
        self.chosen = ChosenRuns(settings, self)
        self.panel = RunListPanel(history, self.chosen, theme.current)
        self.comparison = Comparison(self.chosen, theme.current, settings)
        self.comparison.hide()
        theme.changed.connect(history.set_theme)
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
        self.comparison.furnish(background)
        self.desk = RunListActions(self._history, self.panel, self.chosen, background, window)
        self.desk.changed.connect(controller.refresh_runs)
        self.desk.failed.connect(self.said)
        self.desk.leaving.connect(self._leave)
        self.desk.again_requested.connect(self._run_again)
        self.panel.compare.toggled.connect(window.show_comparison)
        self._history.copy_requested.connect(form.load)
        self._history.move_requested.connect(controller.move)
        controller.runs_listed.connect(self.show_runs)
        controller.unreadable_listed.connect(self.panel.show_unreadable)

    def show_runs(self, infos: list[RunInfo]) -> None:
        """Take every run there is, newest first."""
        self.panel.show_runs(infos)
        self.comparison.show_runs(infos)
        watched = self._history.watched
        if watched is None and not infos:
            return
        if watched is None or not paths.is_run(watched):
            self.wanted.emit(to_open(infos))  # started, or deleted, from somewhere else

    def close_comparison(self) -> None:
        """Back to the single run."""
        self.panel.compare.setChecked(False)

    def _leave(self, run_ids: list[str]) -> None:
        self.chosen.keep([each for each in self.chosen.ids() if each not in run_ids])
        if self._history.watched in run_ids:
            self.wanted.emit(self._history.neighbour(run_ids))

    def _run_again(self, spec: RunSpec) -> None:
        # The form shows what is started, so that problems stand beside the fields they are about.
        self._form.load(spec)
        self.said.emit(self.tr("Starting the run…"))
        self._controller.start(spec)
