"""A model whose stages are on the devices of one process; one stage computes at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from engine.pytorch.data import to_device
from engine.pytorch.parallel import LossAndMetrics, Objective, Rank, WholeModel


class ModelParallelModel(WholeModel):
    """All stages in one process; activations are copied from each device to the next."""

    def __init__(self, module: nn.Module, stages: list[nn.Module], rank: Rank) -> None:
        """Move stage k of `module` to device k of `rank`."""
        super().__init__(module, rank)
        for stage, device in zip(stages, rank.devices, strict=True):
            stage.to(device)
        self._stages = stages
        forward_stages = [torch.compile(stage) if rank.spec.compile else stage for stage in stages]
        self._placed_stages = list(zip(forward_stages, rank.devices, strict=True))

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

    def validate_batch(self, inputs: Any, targets: Any, objective: Objective) -> LossAndMetrics:
        return super().validate_batch(inputs, self._on_last_device(targets), objective)

    def outputs(self, inputs: Any) -> Any:
        for stage, device in self._placed_stages:
            inputs = stage(to_device(inputs, device))
        return inputs

    def validation_outputs(self, inputs: Any) -> Any:
        return self.outputs(inputs)

    def _on_last_device(self, targets: Any) -> Any:
        return to_device(targets, self._placed_stages[-1][1])
