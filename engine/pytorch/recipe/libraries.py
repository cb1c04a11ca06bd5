"""Models of libraries that train in a way of their own, used as such in a recipe."""

from __future__ import annotations

from typing import Any

from engine.pytorch.recipe import hugging_face, keras_compiled, lightning_module
from engine.pytorch.recipe.torch_recipe import TorchRecipe


def adapted(recipe: TorchRecipe, model: Any) -> TorchRecipe:
    """Return the recipe for `model`, which `make_model` gave: its own training, if it has one.

    Raises TrainingFailed, by name, for what the model or the recipe asks for and cannot have.
    """
    if lightning_module.is_lightning_module(model):
        return lightning_module.adapted(recipe, model)
    if hugging_face.is_pretrained_model(model):
        return hugging_face.adapted(recipe, model)
    if keras_compiled.is_compiled_keras(model):
        return keras_compiled.adapted(recipe, model)
    return recipe
