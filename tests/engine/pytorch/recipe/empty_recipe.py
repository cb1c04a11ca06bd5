"""A `TorchRecipe` that offers nothing but what a test gives it."""

from __future__ import annotations

from typing import Any

from engine.pytorch.recipe.torch_recipe import TorchRecipe


def empty_recipe(**functions: Any) -> TorchRecipe:
    """Return a recipe with these functions; the required ones do nothing."""
    required: dict[str, Any] = {
        name: lambda *_: None
        for name in ("make_datasets", "make_model", "build", "loss", "metrics", "make_optimizers")
    }
    return TorchRecipe(**required | functions)
