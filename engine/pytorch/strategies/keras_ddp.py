"""`torch/keras_ddp`: a Keras model on the PyTorch backend, one process per device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from engine.pytorch.torch_strategy import ProcessPerDevice, RecipeStages
from engine.worker.optional_imports import without_scikit_learn

if TYPE_CHECKING:
    import torch
    from torch import nn

    from engine.pytorch.parallel import Parallel, Rank


class KerasDdp(ProcessPerDevice):
    """Every rank holds the whole Keras model; gradients are averaged in the backward pass."""

    name = "torch/keras_ddp"
    title = "Keras on PyTorch, data parallel (DDP)"
    summary = (
        "A Keras model that computes with PyTorch: one process per device, each with a copy of "
        "the model; gradients are averaged while they are computed."
    )
    recipe_frameworks: ClassVar[frozenset[str]] = frozenset({"keras"})
    refusals = {
        "compile": "torch.compile cannot trace the seed generators of Keras and uses plain "
        "PyTorch around them: such a model gets slower, not faster.",
    }

    def wrap_model(self, model: nn.Module, rank: Rank, stages: RecipeStages | None) -> Parallel:
        from engine.pytorch.parallelism.keras_model import KerasDDPModel

        return KerasDDPModel(model, rank)

    def prepare(self, recipe: Path) -> None:
        with without_scikit_learn(recipe):
            import engine.pytorch.parallelism.keras_model  # noqa: F401

    def build(self, model: nn.Module, inputs: Any) -> None:
        from engine.pytorch.parallelism.keras_model import build

        build(model, inputs)

    def default_loss(self) -> Callable[[Any, Any], Any]:
        from engine.pytorch.parallelism.keras_model import default_loss

        return default_loss

    def default_optimizer(self) -> Callable[[Any, float], Any]:
        from engine.pytorch.parallelism.keras_model import default_optimizer

        return default_optimizer

    def optimizer_inputs(self, parallel: Parallel) -> Any:
        from engine.pytorch.parallelism.keras_model import trainable_variables

        return trainable_variables(parallel)

    def as_torch_optimizer(self, optimizer: Any, parallel: Parallel) -> torch.optim.Optimizer:
        from engine.pytorch.parallelism.keras_model import as_torch_optimizer

        return as_torch_optimizer(optimizer, parallel)


strategy = KerasDdp()
