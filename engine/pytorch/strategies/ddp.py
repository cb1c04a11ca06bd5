"""`torch/ddp`: DistributedDataParallel, one process per device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.pytorch.torch_strategy import ProcessPerDevice

if TYPE_CHECKING:
    from torch import nn

    from engine.pytorch.parallel import Parallel, Rank
    from engine.pytorch.recipe.torch_recipe import TorchRecipe


class DistributedDataParallel(ProcessPerDevice):
    """Every rank holds the whole model; gradients are averaged during the backward pass."""

    name = "torch/ddp"
    title = "DDP"
    summary = (
        "DistributedDataParallel: one process per device, each with a copy of the model; gradients "
        "are averaged while they are computed. The usual choice when the model fits on one device."
    )

    def wrap_model(self, model: nn.Module, rank: Rank, recipe: TorchRecipe) -> Parallel:
        from engine.pytorch.parallelism.ddp import DDPModel

        model.to(rank.device)
        return DDPModel(
            model, rank, has_step=recipe.calls_model, finds_unused=recipe.may_skip_parameters
        )


strategy = DistributedDataParallel()
