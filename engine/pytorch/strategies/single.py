"""`torch/single`: one device, no communication."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.pytorch.torch_strategy import OneProcess

if TYPE_CHECKING:
    from torch import nn

    from engine.pytorch.parallel import Parallel, Rank
    from engine.pytorch.recipe.torch_recipe import TorchRecipe


class Single(OneProcess):
    """The plain loop on one device."""

    name = "torch/single"
    title = "Single device"
    summary = (
        "The plain PyTorch loop on one device: the reference that every other strategy equals."
    )
    needs = "1 device"

    def problems(self, devices: Sequence[str]) -> list[str]:
        if len(devices) > 1:
            return [
                f"{self.name} trains on 1 device and {len(devices)} are chosen: "
                "choose one device, or the strategy torch/ddp."
            ]
        return []

    def wrap_model(self, model: nn.Module, rank: Rank, recipe: TorchRecipe) -> Parallel:
        from engine.pytorch.parallel import WholeModel

        model.to(rank.device)
        return WholeModel(model, rank)


strategy = Single()
