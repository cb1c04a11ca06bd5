"""`torch/keras_ddp`: a Keras model on the PyTorch backend, one process per device."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar

from engine.pytorch.torch_strategy import ProcessPerDevice
from engine.worker.optional_imports import without_scikit_learn

if TYPE_CHECKING:
    from torch import nn

    from engine.pytorch.parallel import Parallel, Rank
    from engine.pytorch.recipe.torch_recipe import TorchRecipe


class KerasDdp(ProcessPerDevice):
    """Every rank holds the whole Keras model; gradients are averaged in the backward pass."""

    name = "torch/keras_ddp"
    title = "Keras DDP"
    summary = (
        "A Keras model that computes with PyTorch: one process per device, each with a copy of "
        "the model; gradients are averaged while they are computed."
    )
    recipe_frameworks: ClassVar[frozenset[str]] = frozenset({"keras"})
    refusals = {
        "compile": "torch.compile cannot trace the seed generators of Keras and uses plain "
        "PyTorch around them: such a model gets slower, not faster.",
    }

    def wrap_model(self, model: nn.Module, rank: Rank, recipe: TorchRecipe) -> Parallel:
        from engine.pytorch.parallelism.keras_model import KerasDDPModel

        return KerasDDPModel(
            model, rank, has_step=recipe.calls_model, finds_unused=recipe.may_skip_parameters
        )

    def defaults(self, recipe: Path) -> ModuleType:
        with without_scikit_learn(recipe):
            from engine.pytorch.parallelism import keras_model
        return keras_model


strategy = KerasDdp()
