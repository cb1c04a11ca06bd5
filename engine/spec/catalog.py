"""The strategies and recipes there are, by name, without importing a framework."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from functools import cache
from pathlib import Path

from engine.spec.recipe_file import RecipeInfo, read_recipe
from engine.spec.strategy import Strategy

STRATEGY_ROOMS = ("engine.pytorch.strategies", "engine.tf.strategies")
BUILTIN_RECIPES = Path(__file__).parents[1] / "recipes"


class UnknownName(Exception):
    """A strategy or recipe that does not exist; the text is a sentence for a person."""


@cache
def strategies() -> tuple[Strategy, ...]:
    """Every strategy, found by looking at which files there are, sorted by name."""
    found: list[Strategy] = []
    for room in STRATEGY_ROOMS:
        package = importlib.import_module(room)
        for module in pkgutil.iter_modules(package.__path__):
            found.append(importlib.import_module(f"{room}.{module.name}").strategy)
    return tuple(sorted(found, key=lambda strategy: strategy.name))


def strategies_for(recipe: RecipeInfo) -> tuple[Strategy, ...]:
    """The strategies that can train `recipe`."""
    return tuple(s for s in strategies() if recipe.framework in s.recipe_frameworks)


def strategy(name: str, recipe: RecipeInfo | None = None) -> Strategy:
    """The strategy called `name`: a full name, or a short one that is unique for `recipe`.

    Raises `UnknownName` with the names that would do.
    """
    for known in strategies():
        if known.name == name:
            return known
    usable = strategies_for(recipe) if recipe and recipe.framework else strategies()
    matches = [known for known in usable if known.short_name == name]
    if len(matches) == 1:
        return matches[0]
    names = ", ".join(known.name for known in matches or usable)
    if matches:
        raise UnknownName(f"The strategy name {name!r} is not unique: say one of {names}.")
    what = (
        f" for the {recipe.framework} recipe {recipe.name}" if recipe and recipe.framework else ""
    )
    raise UnknownName(f"There is no strategy {name!r}{what}: say one of {names}.")


def builtin_recipes() -> tuple[RecipeInfo, ...]:
    """The recipes that come with the application, sorted by name."""
    return tuple(read_recipe(file, builtin=True) for file in _builtin_files().values())


def recipe(reference: str) -> RecipeInfo:
    """The recipe that a built-in name or a path stands for; see `RecipeInfo.problem`.

    Raises `UnknownName` for a name that is neither built in nor a path.
    """
    builtin = _builtin_files()
    if reference in builtin:
        return read_recipe(builtin[reference], builtin=True)
    if reference.endswith(".py") or "/" in reference or "\\" in reference:
        path = Path(reference)
        with contextlib.suppress(RuntimeError):  # there is no such user
            path = path.expanduser()
        return read_recipe(path.absolute())
    raise UnknownName(
        f"There is no built-in recipe {reference!r}: say one of {', '.join(builtin)}, or the path "
        "of a .py file."
    )


def _builtin_files() -> dict[str, Path]:
    return {file.stem: file for file in sorted(BUILTIN_RECIPES.glob("[!_]*.py"))}
