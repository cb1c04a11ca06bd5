"""Finds strategies and recipes by name, without importing a framework."""

from __future__ import annotations

import contextlib
import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from engine.spec.recipe_file import SCRIPT, RecipeInfo, read_recipe, read_script
from engine.spec.run_spec import RunSpec
from engine.spec.strategy import Strategy

STRATEGY_PACKAGES = (
    "engine.pytorch.strategies",
    "engine.script_rank.strategies",
    "engine.tf.strategies",
)
USUAL = ("ddp", "mirrored", "torchrun", "fsdp")
"""Short names of the strategies that one takes first for several devices, the usual one first."""

BUILTIN_RECIPES = Path(__file__).parents[1] / "recipes"
TEMPLATES = BUILTIN_RECIPES / "templates"
"""Recipes to begin with, one for each of `template_kinds`."""


class UnknownName(Exception):
    """The strategy or recipe does not exist; the text is a sentence."""


@cache
def strategies() -> tuple[Strategy, ...]:
    """Return every strategy, sorted by name: one per file in STRATEGY_PACKAGES."""
    found: list[Strategy] = []
    for package_name in STRATEGY_PACKAGES:
        package = importlib.import_module(package_name)
        for module in pkgutil.iter_modules(package.__path__):
            found.append(importlib.import_module(f"{package_name}.{module.name}").strategy)
    return tuple(sorted(found, key=lambda strategy: strategy.name))


def recipe_strategies() -> tuple[Strategy, ...]:
    """Return the strategies that train recipes, and not scripts."""
    return tuple(s for s in strategies() if SCRIPT not in s.recipe_frameworks)


def strategies_for(recipe: RecipeInfo) -> tuple[Strategy, ...]:
    """Return the strategies that can train `recipe`."""
    return tuple(s for s in strategies() if recipe.framework in s.recipe_frameworks)


def usual_strategy(offered: Sequence[Strategy], devices: int) -> Strategy:
    """Return the one of `offered`, at least one, that is usually taken for this number of devices:
    a single device for one, DDP or MirroredStrategy for several."""
    order = ("single", *USUAL) if devices < 2 else (*USUAL, "single")
    by_name = {each.short_name: each for each in reversed(offered)}
    return next((by_name[name] for name in order if name in by_name), offered[0])


def strategy(name: str, recipe: RecipeInfo | None = None) -> Strategy:
    """Return the strategy `name`: a full name, or a short one that is unique for `recipe`.

    Raises UnknownName, whose text lists the possible names.
    """
    for known in strategies():
        if known.name == name:
            return known
    usable = strategies_for(recipe) if recipe and recipe.framework else recipe_strategies()
    matches = [known for known in usable if known.short_name == name]
    if len(matches) == 1:
        return matches[0]
    if (SCRIPT in (name.partition("/")[0], recipe and recipe.framework)) and _is_gone(name):
        raise UnknownName(
            f"script/{name.rpartition('/')[2]} is no longer there, as traindeck.place() is not: "
            "choose script/torchrun if the script distributes itself, or script/single. A recipe "
            "trains under every strategy."
        )
    names = ", ".join(known.name for known in matches or usable)
    if matches:
        raise UnknownName(f"The strategy name {name!r} is not unique: say one of {names}.")
    what = (
        f" for the {recipe.framework} recipe {recipe.name}" if recipe and recipe.framework else ""
    )
    raise UnknownName(f"There is no strategy {name!r}{what}: say one of {names}.")


def _is_gone(name: str) -> bool:
    """Whether a strategy of scripts had this name in an earlier version."""
    return name.removeprefix("script/") in ("ddp", "fsdp", "mirrored")


def builtin_recipes() -> tuple[RecipeInfo, ...]:
    """Return the recipes that come with the application, sorted by name."""
    return tuple(read_recipe(file, builtin=True) for file in _builtin_files().values())


def template_kinds() -> list[str]:
    """Return what a recipe can be written for, such as `torch`."""
    return sorted(file.stem for file in TEMPLATES.glob("[!_]*.py"))


def recipe(reference: str) -> RecipeInfo:
    """Return the recipe with this built-in name or path; `RecipeInfo.problem` may be set.

    Raises UnknownName for a name that is neither built in nor a path.
    """
    path, builtin = recipe_file(reference)
    return read_recipe(path, builtin=builtin)


def recipe_of(spec: RunSpec) -> RecipeInfo:
    """Return the recipe of `spec` as it is now, or its script; `RecipeInfo.problem` may be set.

    Raises UnknownName as `recipe` does.
    """
    return read_script(Path(spec.recipe)) if spec.is_script else recipe(spec.recipe)


def recipe_file(reference: str) -> tuple[Path, bool]:
    """Return the file of a recipe, which need not exist, and whether it is built in.

    Raises UnknownName as `recipe` does.
    """
    builtin = _builtin_files()
    if reference in builtin:
        return builtin[reference], True
    if reference.endswith(".py") or "/" in reference or "\\" in reference:
        path = Path(reference)
        with contextlib.suppress(RuntimeError):  # there is no such user
            path = path.expanduser()
        return path.absolute(), False
    raise UnknownName(
        f"There is no built-in recipe {reference!r}: say one of {', '.join(builtin)}, or the path "
        "of a .py file."
    )


def _builtin_files() -> dict[str, Path]:
    return {file.stem: file for file in sorted(BUILTIN_RECIPES.glob("[!_]*.py"))}
