"""Builds the page with all runs, and connects it and the list of runs with the form and the
engine."""

from __future__ import annotations

from functools import partial

from PySide6.QtCore import QObject, QSettings, Signal

from engine.runs.run_info import RunInfo
from engine.spec.recipe_file import RecipeInfo
from gui.bridge.background import Background
from gui.bridge.engine_client import EngineClient
from gui.bridge.files.run_recipes import NotForTheForm, origin_of, settings_here
from gui.bridge.machines.machines import place_of
from gui.compare.comparison import Comparison
from gui.run_form.run_form import RunForm
from gui.run_list.chosen_runs import ChosenRuns
from gui.run_list.filter_sort import run_to_open
from gui.run_list.run_list_actions import RunListActions
from gui.run_list.run_list_panel import RunListPanel
from gui.run_list.run_list_view import RunListView
from gui.runs_table.runs_page import RunsPage
from gui.style.theme import ThemeController
from gui.window.main_window import MainWindow
from gui.window.pages import PageName


class RunsController(QObject):
    """Decides which run the window shows after runs were created or deleted."""

    open_requested = Signal(object)
    """Id of the run that the window should show now, or None for no run. Emitted when no run is
    shown, and before or after the shown run is deleted."""

    export_requested = Signal(list)
    """list[RunInfo]"""

    checkpoint_requested = Signal(object)
    """RunInfo of a run of which the user wants to copy a checkpoint."""

    message = Signal(str)
    """A sentence for the status bar."""

    def __init__(
        self,
        run_list: RunListView,
        panel: RunListPanel,
        chosen: ChosenRuns,
        background: Background,
        client: EngineClient,
        form: RunForm,
        theme: ThemeController,
        settings: QSettings,
        window: MainWindow,
    ) -> None:
        super().__init__(window)
        self.comparison = Comparison(chosen, background, theme.current, settings)
        self.page = page = RunsPage(chosen, self.comparison, background, theme.current, settings)
        window.parts.pages["runs"].fill(page)
        for part in (self.comparison, page):
            theme.changed.connect(part.set_theme)
            window.reset_layout.triggered.connect(part.reset_layout)
        self.awaited = ""
        """Id of a run of another machine that was shown at the last end of the window: it is shown
        again when that machine lists it, unless the user opens another one before."""

        self._run_list = run_list
        self._panel = panel
        self._chosen = chosen
        self._client = client
        self._form = form
        self._window = window
        self.actions = RunListActions(run_list, panel, chosen, background, window)
        self.actions.changed.connect(client.refresh_runs)
        self.actions.failed.connect(self.message)
        self.actions.deletion_started.connect(self._close_deleted)
        self.actions.rerun_requested.connect(self.run_again)
        self.actions.export_wanted.connect(self.export_requested)
        self.actions.checkpoint_wanted.connect(self.checkpoint_requested)
        page.export_wanted.connect(self.export_requested)
        self.comparison.trouble.connect(self.message)
        page.message.connect(self.message)
        page.opened.connect(self._open)
        page.notes_wanted.connect(self.actions.write_notes)
        page.delete_wanted.connect(self.actions.delete_runs)
        page.comparing_changed.connect(panel.compare.setChecked)
        panel.compare.toggled.connect(self._compare)
        panel.compare.clicked.connect(self._leave_comparison)
        window.page_changed.connect(self._page_changed)
        run_list.copy_requested.connect(self.copy_settings)
        run_list.move_requested.connect(client.move)
        client.runs_listed.connect(panel.show_runs)
        client.runs_listed.connect(self.comparison.show_runs)
        client.runs_listed.connect(page.show_runs)
        client.runs_listed.connect(self._check_watched)
        client.unreadable_listed.connect(panel.show_unreadable)
        client.unreadable_listed.connect(page.show_unreadable)

    def close_comparison(self) -> None:
        """Show the single run again."""
        self._window.show_page("run")

    def _page_changed(self, page: PageName) -> None:
        if page == "run":
            self.page.set_comparing(False)

    def _compare(self, shown: bool) -> None:
        self.page.set_comparing(shown)
        if shown:
            self._window.show_page("runs")

    def _leave_comparison(self, shown: bool) -> None:
        if not shown:
            self.close_comparison()

    def _open(self, run_id: str) -> None:
        self.awaited = ""
        if run_id == self._run_list.watched:
            self.close_comparison()
        else:
            self.open_requested.emit(run_id)

    def _check_watched(self, infos: list[RunInfo]) -> None:
        """Open the run that was shown before, or another one if none is shown, or if the shown one
        was deleted elsewhere."""
        watched = self._run_list.watched
        if watched is None and not infos:
            return
        listed = {info.id: info for info in infos}
        if before := listed.get(self.awaited):
            self.awaited = ""
            shown = listed.get(watched or "")
            if shown is None or shown.state.is_over or not before.state.is_over:
                self.open_requested.emit(before.id)
                return
        if watched is None or not self._client.has_run(watched):
            page = self._window.page
            self.open_requested.emit(run_to_open(infos))
            self._window.show_page(page)  # nobody asked for another one

    def _close_deleted(self, run_ids: list[str]) -> None:
        self._chosen.keep_only([each for each in self._chosen.ids() if each not in run_ids])
        if self._run_list.watched in run_ids:
            self.open_requested.emit(self._run_list.neighbour(run_ids))

    def copy_settings(self, info: RunInfo) -> None:
        """Show the settings of a run in the form, for a new one on the same machine."""
        self._client.recipes.read(info, partial(self._load, info))

    def run_again(self, info: RunInfo) -> None:
        """Start a new run with the settings of another one, on its machine."""

        def start(recipe: RecipeInfo) -> None:
            # The form shows the spec too, so that problems appear beside their fields.
            self._load(info, recipe)
            self._client.start_again(info)
            self.message.emit("Starting the run…")

        self._client.recipes.read(info, start)

    def _load(self, info: RunInfo, recipe: RecipeInfo) -> None:
        machine = place_of(info.id)[0]
        if not machine:
            self._form.load(info.spec, machine)
            return
        try:
            spec = settings_here(info.spec, recipe)
        except NotForTheForm as error:
            self.message.emit(str(error))
            return
        self._form.load(spec, machine, origin_of(info, recipe))
