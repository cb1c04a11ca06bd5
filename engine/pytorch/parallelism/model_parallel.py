"""A model whose stages are on the devices of one process, computed one after the other."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from engine.pytorch.data import to_device
from engine.pytorch.parallel import Figures, Objective, Rank, WholeModel


class ModelParallelModel(WholeModel):
    """The model of a pool of one process: activations are copied from each device to the next."""

    def __init__(self, module: nn.Module, stages: list[nn.Module], rank: Rank) -> None:
        """`stages` are those of `module`; stage k is moved to device k of `rank`."""
        super().__init__(module, rank)
        for stage, device in zip(stages, rank.devices, strict=True):
            stage.to(device)
        self._stages = stages
        called = [torch.compile(stage) if rank.spec.compile else stage for stage in stages]
        self._chain = list(zip(called, rank.devices, strict=True))

    def train(self) -> None:
        super().train()
        for stage in self._stages:
            stage.train()

    def evaluate(self) -> None:
        super().evaluate()
        for stage in self._stages:
            stage.eval()

    def train_batch(
        self, inputs: Any, targets: Any, weight: float, objective: Objective, *, sync: bool
    ) -> torch.Tensor:
        return super().train_batch(
            inputs, self._on_last_device(targets), weight, objective, sync=sync
        )

    def validate_batch(self, inputs: Any, targets: Any, objective: Objective) -> Figures:
        return super().validate_batch(inputs, self._on_last_device(targets), objective)

    def outputs(self, inputs: Any) -> Any:
        for stage, device in self._chain:
            inputs = stage(to_device(inputs, device))
        return inputs

    def validation_outputs(self, inputs: Any) -> Any:
        return self.outputs(inputs)

    def _on_last_device(self, targets: Any) -> Any:
        """Return `targets` on the device of the last stage."""
        return to_device(targets, self._chain[-1][1])
