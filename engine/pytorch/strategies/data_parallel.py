"""`torch/data_parallel`: nn.DataParallel, one process for several GPUs, for comparison."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.pytorch.torch_strategy import OneProcess

if TYPE_CHECKING:
    from torch import nn

    from engine.pytorch.parallel import Parallel, Rank
    from engine.pytorch.recipe.torch_recipe import TorchRecipe


class DataParallel(OneProcess):
    """One thread per GPU; the model is copied to all of them at every step."""

    name = "torch/data_parallel"
    title = "DataParallel (DP)"
    summary = (
        "nn.DataParallel: one process copies the model to every GPU at each step. Slower than DDP "
        "and here for comparison; on a CPU it equals the single device."
    )
    needs = "1 or more GPUs, or 1 CPU worker"
    refusals = OneProcess.refusals | {
        "compile": "nn.DataParallel copies the model at every step, which torch.compile cannot "
        "follow: choose torch/ddp.",
    }

    def problems(self, devices: Sequence[str]) -> list[str]:
        if len(devices) > 1 and devices[0].startswith("cpu:"):
            return [
                f"{self.name} on a CPU equals torch/single, and {len(devices)} CPU workers are "
                "chosen: choose 1 worker, or the strategy torch/ddp."
            ]
        return []

    def replicas(self, devices: Sequence[str]) -> int:
        return len(devices)

    def wrap_model(self, model: nn.Module, rank: Rank, recipe: TorchRecipe) -> Parallel:
        from engine.pytorch.parallelism.data_parallel import DataParallelModel
        from engine.training.errors import TrainingFailed

        if recipe.carries_state and len(rank.devices) > 1:
            raise TrainingFailed(
                f"step() of the recipe carries state from batch to batch, and {self.name} divides "
                "each batch anew among the GPUs: choose torch/ddp."
            )
        model.to(rank.device)
        return DataParallelModel(model, rank, recipe.weight)


strategy = DataParallel()
