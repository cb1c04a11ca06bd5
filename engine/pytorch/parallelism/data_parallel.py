"""A model that one process copies to all its GPUs at every step (nn.DataParallel)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.parallel import parallel_apply, replicate, scatter
from torch.utils._pytree import tree_leaves

from engine.pytorch.devices import is_gpu
from engine.pytorch.parallel import Rank, RecipeFunction, WholeModel
from engine.pytorch.precision import MIXED
from engine.pytorch.recipe.torch_recipe import Values


class DataParallelModel(WholeModel):
    """All GPUs compute outputs; loss and update are computed on the first one.

    The recipe's step runs on every GPU, with its part of the batch.
    """

    def __init__(
        self, module: nn.Module, rank: Rank, weight: Callable[[Any], float] | None = None
    ) -> None:
        """`module` is on the first device. `weight` is the recipe's, or None."""
        super().__init__(module, rank)
        self._ids = [device.index for device in rank.devices if is_gpu(device)]
        dtype = MIXED.get(rank.spec.precision)
        self._call = InPrecision(self._recipe_call, dtype)
        self._data_parallel = nn.DataParallel(InPrecision(module, dtype), self._ids or None)
        self._weight = weight or _samples

    def outputs(self, inputs: Any) -> Any:
        return self._data_parallel(inputs)

    def call_in_training(self, function: RecipeFunction, batch: Any, optimizer: str) -> Values:
        if len(self._ids) < 2:
            return super().call_in_training(function, batch, optimizer)
        parts = scatter(batch, self._ids)
        replicas = replicate(self._call, self._ids[: len(parts)])
        results = parallel_apply(replicas, [(function, part) for part in parts])
        return combined(results, [self._weight(part) for part in parts], self.device)


class InPrecision(nn.Module):
    """Calls a module in a mixed precision, also in a thread that nn.DataParallel has started.

    There PyTorch knows that autocast is on, and not in which type: it would take fp16.
    """

    def __init__(self, module: nn.Module, dtype: torch.dtype | None) -> None:
        """Without `dtype`, the module is called as it is."""
        super().__init__()
        self.module = module
        self._dtype = dtype

    def forward(self, *inputs: Any) -> Any:
        if self._dtype is None or not torch.is_autocast_enabled("cuda"):
            return self.module(*inputs)
        with torch.autocast("cuda", self._dtype):
            return self.module(*inputs)


def combined(parts: list[Values], weights: list[float], device: torch.device) -> Values:
    """Return the weighted means of values that were computed from the parts of one batch."""
    total = sum(weights) or 1.0
    return {
        name: sum(
            (value.to(device) if isinstance(value, torch.Tensor) else value) * (weight / total)
            for value, weight in zip((part[name] for part in parts), weights, strict=True)
        )
        for name in parts[0]
    }


def _samples(batch: Any) -> float:
    """Return the number of samples of `batch`: the length of its first tensor."""
    return float(next(len(leaf) for leaf in tree_leaves(batch) if isinstance(leaf, torch.Tensor)))
