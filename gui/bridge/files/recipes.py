"""Reads recipe files: the built-in ones and the user's own."""

from __future__ import annotations

from engine.runs.run_info import RunInfo
from engine.spec import catalog, recipe_copy
from engine.spec.recipe_file import RecipeInfo


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
    """Read the recipe that a run of this machine has kept; its own file may have changed, or be
    gone. `RunRecipes` reads that of any run."""
    return recipe_copy.recipe_of_run(info.folder, info.spec)
