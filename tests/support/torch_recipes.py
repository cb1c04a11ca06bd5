"""Recipes of PyTorch without a file, for tests of what is done with them."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from engine.pytorch.recipe import defaults
from engine.pytorch.recipe.from_file import torch_recipe
from engine.pytorch.recipe.torch_recipe import TorchRecipe


def recipe_of(**functions: Any) -> TorchRecipe:
    """Return a recipe with `functions` by their names; model and data sets may be left out."""
    module = ModuleType("recipe")
    vars(module).update({"model": lambda: None, "datasets": lambda: None} | functions)
    return torch_recipe(module, lambda function: {}, defaults)
