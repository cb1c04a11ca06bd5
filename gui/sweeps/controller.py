"""Builds the page of the sweeps, and connects it, the form and the dialog of a sweep with the
engine."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path, PurePosixPath

from PySide6.QtCore import QObject, QSettings, Signal

from engine.runs.run_info import RunInfo
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.sweeps.report import SweepReport
from gui.bridge.background import Background
from gui.bridge.files.run_recipes import NotForTheForm, RunRecipes, origin_of, settings_here
from gui.bridge.machines.machines import place_of
from gui.bridge.sweeps import Sweeps
from gui.run_form.run_form import RunForm
from gui.run_form.sweep.sweep_dialog import SweepDialog
from gui.style.theme import ThemeController
from gui.sweeps.sweeps_page import SweepsPage
from gui.window.main_window import MainWindow


class SweepsController(QObject):
    """Sweeps go on without the window: this only starts, stops and shows them."""

    message = Signal(str)
    """A sentence for the status bar."""

    def __init__(
        self,
        form: RunForm,
        recipes: RunRecipes,
        background: Background,
        theme: ThemeController,
        settings: QSettings,
        window: MainWindow,
    ) -> None:
        super().__init__(window)
        self.page = page = SweepsPage(background, theme.current, settings)
        window.parts.pages["sweeps"].fill(page)
        theme.changed.connect(page.set_theme)
        window.reset_layout.triggered.connect(page.reset_layout)
        self._form, self._recipes, self._window = form, recipes, window
        self._infos: Sequence[RunInfo] = ()
        self.sweeps = Sweeps(background, self)
        self.dialog: SweepDialog | None = None
        """The dialog that is open, if one is."""

        self.sweeps.listed.connect(page.show_reports)
        self.sweeps.started.connect(self._show_started)
        self.sweeps.refused.connect(self._show_refusal)
        self.sweeps.failed.connect(self.message)
        page.watching.connect(self.sweeps.set_watching)
        page.stop_wanted.connect(self.sweeps.stop)
        page.resume_wanted.connect(self.sweeps.resume)
        page.form_wanted.connect(self._fill_form)
        page.new_wanted.connect(self._ask_by_form)
        form.sweep_requested.connect(self.ask)
        form.spec_changed.connect(lambda _: self._show_place_problem())
        window.sweep.triggered.connect(self._ask_by_form)
        window.visibility_changed.connect(self._set_visible)

    def show_runs(self, infos: Sequence[RunInfo]) -> None:
        """Set the known runs, whose metrics are offered."""
        self._infos = infos

    def ask(self, spec: RunSpec, recipe: RecipeInfo) -> SweepDialog:
        """Ask which settings vary, from what is in the form, and on the machine that is chosen."""
        machine = self._form.machine.machine
        same = (info for info in self._infos if _is_of(recipe, info, machine))
        metrics = {name for info in same for name in info.status.metrics}
        names = self._form.devices.display_name
        self.dialog = dialog = SweepDialog(spec, recipe, names, metrics, machine, self._window)
        dialog.start_wanted.connect(self.sweeps.start)
        dialog.finished.connect(self._forget_dialog)
        dialog.open()
        return dialog

    def shut_down(self) -> None:
        """Read no more; the sweeps go on."""
        self.sweeps.set_watching(False)

    def _ask_by_form(self) -> None:
        self._window.show_form()
        self._form.request_sweep()

    def _show_place_problem(self) -> None:
        """Tell the dialog whether its machine, which is that of the form, is connected."""
        if self.dialog is not None:
            self.dialog.set_place_problem(self._form.machine.problem)

    def _forget_dialog(self) -> None:
        self.dialog = None

    def _show_started(self, number: str) -> None:
        if self.dialog is not None:
            self.dialog.accept()
        self.message.emit(f"Sweep {number} has started.")
        self.page.choose(number)
        self._window.show_page("sweeps")

    def _show_refusal(self, sentence: str) -> None:
        if self.dialog is not None:
            self.dialog.show_refusal(sentence)
        else:
            self.message.emit(sentence)

    def _fill_form(self, report: SweepReport) -> None:
        """Show the best settings for a new run on the machine of the sweep, from which the recipe
        of the best run comes."""
        sweep, best = report.sweep, report.summary.best
        if sweep is None or best is None:
            return
        spec = sweep.best_spec(best.settings)
        if not place_of(report.summary.sweep)[0]:
            self._load(spec, report)
            return
        info = next((each for each in self._infos if each.id == best.run), None)
        if info is None:
            text = (
                f"The recipe comes from run {best.run}, which is not listed: restore it from "
                "the trash, or connect to its machine."
            )
            self.message.emit(text)
            return
        self._recipes.read(info, partial(self._load_copy, spec, report, info))

    def _load_copy(
        self, spec: RunSpec, report: SweepReport, info: RunInfo, recipe: RecipeInfo
    ) -> None:
        try:
            here = settings_here(spec, recipe)
        except NotForTheForm as error:
            self.message.emit(str(error))
            return
        self._load(here, report, origin_of(info, recipe))

    def _load(self, spec: RunSpec, report: SweepReport, note: str = "") -> None:
        number = report.summary.sweep
        self._form.load(spec, place_of(number)[0], note)
        self._window.show_form()
        self.message.emit(f"The form has the best settings of sweep {number}.")

    def _set_visible(self, visible: bool) -> None:
        self.sweeps.set_watching(visible and self.page.isVisible())


def _is_of(recipe: RecipeInfo, info: RunInfo, machine: str) -> bool:
    """Whether a run has trained `recipe`, here or on `machine`, where its copies have its name."""
    place = place_of(info.id)[0]
    if not place or recipe.builtin:
        return place in ("", machine) and info.spec.recipe == recipe.reference
    return place == machine and PurePosixPath(info.spec.recipe).name == Path(recipe.path).name
