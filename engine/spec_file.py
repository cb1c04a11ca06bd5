"""`spec.toml` in a run folder: what was asked, and the environment in which it was asked."""

from __future__ import annotations

import importlib.metadata
import platform
import shutil
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import tomli_w

from engine.process import run_and_read
from engine.recipe_file import RecipeInfo
from engine.spec import RunSpec

FILE_NAME = "spec.toml"
_PACKAGES = ("torch", "tensorflow", "keras", "numpy", "scikit-learn")


class UnreadableSpec(Exception):
    """A spec.toml that is missing or damaged; the text is a sentence."""


def write_spec(folder: Path, spec: RunSpec, recipe: RecipeInfo) -> None:
    """Write `spec.toml`, and keep a copy of the recipe beside it. Raises OSError."""
    document = {"run": msgspec.to_builtins(spec), "environment": _environment(recipe)}
    (folder / FILE_NAME).write_text(tomli_w.dumps(document), encoding="utf-8")
    shutil.copyfile(recipe.path, folder / "recipe.py")


def read_spec(folder: Path) -> RunSpec:
    """The spec of the run in `folder`. Raises UnreadableSpec."""
    try:
        document = tomllib.loads((folder / FILE_NAME).read_text(encoding="utf-8"))
        return msgspec.convert(document["run"], RunSpec)
    except (OSError, ValueError, KeyError, msgspec.ValidationError) as error:
        raise UnreadableSpec(f"The settings of {folder.name} cannot be read: {error}.") from error


def _environment(recipe: RecipeInfo) -> dict[str, Any]:
    """Package versions, without importing the packages, and the recipe's git commit."""
    versions = {}
    for package in _PACKAGES:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    where = Path(recipe.path).parent
    environment: dict[str, Any] = {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": versions,
        "recipe_path": recipe.path,
    }
    commit = run_and_read(["git", "rev-parse", "HEAD"], where)
    if commit:
        environment["recipe_commit"] = commit
        changed = run_and_read(["git", "status", "--porcelain", "--", recipe.path], where)
        environment["recipe_changed_since_commit"] = bool(changed)
    return environment
