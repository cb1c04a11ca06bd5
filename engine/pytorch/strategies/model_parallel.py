"""`torch/model_parallel`: the stages of a model on several devices, in one process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.pytorch.torch_strategy import OneProcess
from engine.spec.strategy import PartitionedStrategy

if TYPE_CHECKING:
    from torch import nn

    from engine.pytorch.parallel import Parallel, Rank
    from engine.pytorch.recipe.torch_recipe import TorchRecipe


class ModelParallel(PartitionedStrategy, OneProcess):
    """One stage per device; activations are moved from device to device."""

    name = "torch/model_parallel"
    title = "Model parallel"
    summary = (
        "The model is cut into one stage per device and one device computes at a time: the simple "
        "way to train a model that fits on no single device. torch/pipeline overlaps the stages."
    )
    needs = "1 or more devices, and a model that can be cut"

    def wrap_model(self, model: nn.Module, rank: Rank, recipe: TorchRecipe) -> Parallel:
        from engine.pytorch.parallelism.model_parallel import ModelParallelModel
        from engine.pytorch.parallelism.stages import cut_model

        return ModelParallelModel(model, cut_model(model, len(rank.devices), recipe.stages), rank)


strategy = ModelParallel()
