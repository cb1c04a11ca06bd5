"""Connects the form with twin runs, and chooses both for the comparison."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QObject, Signal

from engine.runs.run_info import RunInfo
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from gui.bridge.background import Background
from gui.bridge.machines.machines import place_of
from gui.bridge.planning.twins import Twins, told, twin_tag
from gui.run_form.run_form import RunForm
from gui.run_list.chosen_runs import ChosenRuns
from gui.runs_table.runs_page import RunsPage
from gui.window.main_window import MainWindow


class TwinsController(QObject):
    """Twin runs go on without the window: this starts them, and follows them in the list."""

    message = Signal(str)
    """A sentence for the status bar."""

    begun = Signal()
    """A run has been started: the list of the runs is old."""

    def __init__(
        self,
        form: RunForm,
        page: RunsPage,
        chosen: ChosenRuns,
        background: Background,
        window: MainWindow,
    ) -> None:
        super().__init__(window)
        self._page, self._chosen, self._window = page, chosen, window
        self._machine = form.machine
        self.twins = Twins(background, self)
        self._first = ""
        """Id of the first run of the pair that was started last; empty: none was."""

        self._pair: list[str] = []
        """Those of its runs that are listed."""

        self._told = ""
        self.twins.started.connect(self._follow)
        self.twins.refused.connect(self.message)
        form.twin_requested.connect(self._start)
        window.run_menu.setToolTipsVisible(True)
        window.run_menu.insertAction(window.copy_command, form.planning.twin)

    def show_runs(self, infos: Sequence[RunInfo]) -> None:
        """Choose both runs as soon as they are listed; say what becomes of them."""
        first = next((info for info in infos if info.id == self._first), None)
        if first is None:
            return
        machine, tag = place_of(first.id)[0], twin_tag(first.notes)
        there = [info for info in infos if place_of(info.id)[0] == machine]
        others = [info.id for info in there if tag and twin_tag(info.notes) == tag]
        pair = [first.id, *(each for each in reversed(others) if each != first.id)]
        if pair != self._pair:
            self._pair = pair
            self._chosen.choose(pair)
            self._page.set_comparing(self._window.page == "runs")
        if (text := told(first.notes)) and text != self._told:
            self._told = text
            self.message.emit(f"{machine}: {text}" if machine else text)

    def _start(self, spec: RunSpec, recipe: RecipeInfo, tags: tuple[str, ...]) -> None:
        machine = self._machine.machine
        text = self.tr("Starting the twin run on {machine}…") if machine else ""
        self.message.emit(text.format(machine=machine) or self.tr("Starting the twin run…"))
        self.twins.start(spec, recipe, tags, machine)

    def _follow(self, run_id: str) -> None:
        self._first, self._pair, self._told = run_id, [], ""
        self._window.show_page("runs")
        self.begun.emit()
