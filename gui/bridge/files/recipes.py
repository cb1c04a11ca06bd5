"""Reads recipe files: the built-in ones and the user's own."""

from __future__ import annotations

from engine.runs.run_info import RunInfo
from engine.spec import catalog, recipe_copy
from engine.spec.recipe_file import RecipeInfo
from gui.bridge.machines.machines import is_elsewhere, place_of
from gui.style.translation import translate


def builtin_recipes() -> tuple[RecipeInfo, ...]:
    """Return the recipes that come with the application, sorted by name."""
    return catalog.builtin_recipes()


def read_recipe(reference: str) -> RecipeInfo:
    """Read a built-in recipe by name or a file by path; its `problem` says why it is unusable."""
    try:
        return catalog.recipe(reference)
    except catalog.UnknownName as error:
        return RecipeInfo(name=reference, path=reference, builtin=False, problem=str(error))


def read_run_recipe(info: RunInfo) -> RecipeInfo:
    """Read the recipe that a run has kept; its own file may have changed, or be gone.

    That of a run of another machine is there, unless it is a built-in one.
    """
    if is_elsewhere(info) and info.spec.recipe not in [each.name for each in builtin_recipes()]:
        machine, path = place_of(info.id)[0], info.spec.recipe
        text = translate("Recipes", "{path} is a file on {machine}: run it again there.")
        problem = text.format(path=path, machine=machine)
        return RecipeInfo(name=path, path=path, builtin=False, problem=problem)
    return recipe_copy.recipe_of_run(info.folder, info.spec)
