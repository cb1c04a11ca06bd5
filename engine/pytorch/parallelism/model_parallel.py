"""A model whose stages are on the devices of one process; one stage computes at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from engine.pytorch.parallel import ONLY, Objective, Rank, RecipeCall, WholeModel
from engine.pytorch.recipe.torch_recipe import Turn, Values
from engine.pytorch.samples.data import to_device
from engine.training.errors import TrainingFailed


class StagedModel(nn.Module):
    """The whole model for the recipe's step: inputs and outputs are on the first device."""

    def __init__(self, module: nn.Module, forward: Callable[[Any], Any], device: torch.device):
        super().__init__()
        self._module_holder = (module,)
        self._forward = forward
        self._device = device

    def forward(self, *inputs: Any, **options: Any) -> Any:
        if len(inputs) != 1 or options:
            raise TrainingFailed(
                "step() of the recipe calls the model with several arguments, and the stages of "
                "torch/model_parallel pass on one: give it a tuple, or choose torch/fsdp."
            )
        return to_device(self._forward(inputs[0]), self._device)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            return super().__getattr__(name)
        return getattr(self._module_holder[0], name)


class ModelParallelModel(WholeModel):
    """All stages in one process; activations are copied from each device to the next."""

    def __init__(self, module: nn.Module, stages: list[nn.Module], rank: Rank) -> None:
        """Move stage k of `module` to device k of `rank`."""
        super().__init__(module, rank, stages)
        for stage, device in zip(stages, rank.devices, strict=True):
            stage.to(device)
        self._stages = stages
        self._placed_stages = list(zip(stages, rank.devices, strict=True))
        staged = StagedModel(module, self.outputs, rank.device)
        self._recipe_call = RecipeCall(module, staged)

    def train(self) -> None:
        super().train()
        for stage in self._stages:
            stage.train()

    def evaluate(self) -> None:
        super().evaluate()
        for stage in self._stages:
            stage.eval()

    def training_values(self, batch: Any, objective: Objective, turn: Turn) -> Values:
        if not objective.step:
            batch = self._with_targets_at_the_end(batch)
        return super().training_values(batch, objective, turn)

    def validate_batch(self, batch: Any, objective: Objective, turn: Turn = ONLY) -> Values:
        if not (objective.step or objective.validate):
            batch = self._with_targets_at_the_end(batch)
        return super().validate_batch(batch, objective, turn)

    def outputs(self, inputs: Any) -> Any:
        for stage, device in self._placed_stages:
            inputs = stage(to_device(inputs, device))
        return inputs

    def validation_outputs(self, inputs: Any) -> Any:
        return self.outputs(inputs)

    def _with_targets_at_the_end(self, batch: Any) -> Any:
        """Return the pair `batch` with its targets on the device of the last stage."""
        inputs, targets = batch
        return inputs, to_device(targets, self._placed_stages[-1][1])
