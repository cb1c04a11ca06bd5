"""The recipe or script of a run for the form: it is brought here from another machine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path, PurePosixPath

from msgspec.structs import replace
from PySide6.QtCore import QObject

from engine.runs.run_info import RunInfo
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from gui.bridge.background import Background
from gui.bridge.files.recipes import read_run_recipe
from gui.bridge.machines.machines import UNREADABLE, is_elsewhere, place_of


class RunRecipes(QObject):
    """Reads the recipe with which a run trains, wherever the run is."""

    def __init__(self, background: Background, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._background = background

    def read(self, info: RunInfo, then: Callable[[RecipeInfo], None]) -> None:
        """Call `then` with the recipe or script of a run; at once for a run of this machine.

        That of another machine has the path that it has there, and its `copy` is a file here, with
        the modules beside it. Why it did not come is its `problem`.
        """
        if not is_elsewhere(info):
            then(read_run_recipe(info))
            return
        machines, spec = self._background.machines, info.spec

        def work() -> RecipeInfo:
            from engine.interface.recipes import recipe_of

            return recipe_of(*machines.engine_of(info.id), spec)

        self._background.run(work, then, partial(_failed, spec, then))


def _failed(spec: RunSpec, then: Callable[[RecipeInfo], None], error: Exception) -> None:
    if not isinstance(error, UNREADABLE):
        raise error
    path = Path(spec.recipe)
    then(RecipeInfo(name=path.stem, path=str(path), builtin=False, problem=str(error)))


def origin_of(info: RunInfo, recipe: RecipeInfo) -> str:
    """Return what the `recipe` of a run of another machine is, in a sentence; empty: as here."""
    machine = place_of(info.id)[0]
    if not machine or recipe.builtin:
        return ""
    return (
        f"{Path(info.spec.recipe).name} as run {info.id} has trained it: on {machine} it may "
        "be newer."
    )


class NotForTheForm(Exception):
    """No new run can be made of the settings here; the text is a sentence."""


def settings_here(spec: RunSpec, recipe: RecipeInfo) -> RunSpec:
    """Return the settings for a new run of the `copy` here of a recipe or script of elsewhere.

    Its Python is one of that machine. Raises NotForTheForm.
    """
    if recipe.problem:
        raise NotForTheForm(recipe.problem)
    if recipe.builtin:
        return spec
    if not spec.is_script:
        return replace(spec, recipe=recipe.copy)
    script = PurePosixPath(spec.recipe)
    folder = PurePosixPath(spec.working_folder or script.parent)
    at = next((place for place, word in enumerate(spec.command) if folder / word == script), None)
    if at is None or not recipe.copy:
        text = f"{script} is started by its folder, which does not come here: run it again there."
        raise NotForTheForm(text)
    name = Path(recipe.copy).name
    command = (*spec.command[:at], name, *spec.command[at + 1 :])
    return replace(spec, recipe=recipe.copy, command=command, working_folder="")
