"""Keras models on the PyTorch backend: modules, DDP replicas, and the defaults of a recipe."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np
import torch
from keras.src.random.seed_generator import global_seed_generator
from torch import distributed, nn

from engine.pytorch.parallel import Rank
from engine.pytorch.parallelism.ddp import DDPModel
from engine.pytorch.parallelism.keras_optimizer import KerasOptimizer
from engine.pytorch.recipe.torch_recipe import TrainedModel
from engine.training.probes.keras_layers import NoteOutputs, watch_layers


def loss(outputs: Any, targets: Any) -> Any:
    """Return cross-entropy from logits for integer targets, else mean squared error.

    One loss per sample, of shape (samples,).
    """
    if targets.is_floating_point():
        return keras.losses.mean_squared_error(targets, outputs)
    return keras.losses.sparse_categorical_crossentropy(targets, outputs, from_logits=True)


def optimizer(variables: Any, learning_rate: float, precision: str = "default") -> Any:
    """Return AdamW; `precision` is that of the spec."""
    return keras.optimizers.AdamW(learning_rate)


def build(model: Any, inputs: Any) -> None:
    """Create the variables of `model`, in place, from the `inputs` of a batch of one sample.

    Raises ValueError when Keras does not use PyTorch.
    """
    if keras.backend.backend() != "torch":
        raise ValueError(
            f"Keras uses {keras.backend.backend()} here: "
            "a worker of torch/keras_ddp must be started with KERAS_BACKEND=torch."
        )
    if not model.built:
        with torch.no_grad():
            model(inputs, training=False)


class KerasModule(nn.Module):
    """A Keras model as a module: train() and eval() have an effect, and each weight has one name.

    The states of its seed generators are not parameters, because they differ between replicas.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        # The tuple hides the model from nn.Module: as a submodule it would list weights repeatedly.
        self._model_holder = (model,)
        self.torch_modules = nn.ModuleList(
            layer.module
            for layer in model._flatten_layers()
            if isinstance(layer, keras.layers.TorchModuleWrapper)
        )
        wrapped = set(self.torch_modules.parameters())
        self.weights = nn.ParameterDict()
        for variable in model.weights:
            if variable.value not in wrapped:
                name = variable.path
                while name in self.weights:
                    name += "_"  # Keras allows two layers with the same name
                self.weights[name] = variable.value

    @property
    def model(self) -> Any:
        """The Keras model itself."""
        return self._model_holder[0]

    def forward(self, inputs: Any) -> Any:
        return self.model(inputs, training=self.training)


class KerasDDPModel(DDPModel):
    """One replica of a Keras model in DDP training; all ranks must construct it together."""

    module: KerasModule

    def __init__(
        self, model: Any, rank: Rank, *, has_step: bool = False, finds_unused: bool = False
    ) -> None:
        module = KerasModule(model).to(rank.device)
        super().__init__(module, rank, has_step=has_step, finds_unused=finds_unused)
        weights = {id(variable) for variable in model.weights}
        self._seeds = [v for v in model.variables if id(v) not in weights]
        self._seeds.append(global_seed_generator().state)
        for seed in self._seeds:
            seed.assign(_seed_for(rank.number, seed.value.tolist()))

    def watch_layers(self, note: NoteOutputs) -> list[Callable[[], object]]:
        return watch_layers(self.module.model, note)

    def penalties(self) -> Sequence[torch.Tensor]:
        losses: Sequence[torch.Tensor] = self.module.model.losses
        return losses

    def running_statistics(self) -> list[torch.Tensor]:
        """Return the buffers, and the weights without training: Keras' running statistics."""
        return [*super().running_statistics(), *self._untrained()]

    def changed_tensors(self) -> list[torch.Tensor]:
        seeds = [seed.value for seed in self._seeds]
        return [*super().changed_tensors(), *self._untrained(), *seeds]

    def sync_buffers(self) -> None:
        super().sync_buffers()
        if self.replicas > 1:
            for weight in self._untrained():
                distributed.broadcast(weight, 0)

    def rank_state(self) -> dict[str, torch.Tensor]:
        return {
            f"seed_generator_{index}": seed.value.detach().cpu().clone()
            for index, seed in enumerate(self._seeds)
        }

    def load_rank_state(self, state: dict[str, torch.Tensor]) -> None:
        for index, seed in enumerate(self._seeds):
            seed.assign(state[f"seed_generator_{index}"])

    def recipe_model(self) -> Any:
        return self.module.model

    def trained_model(self) -> TrainedModel:
        variables = self.optimizer_inputs()
        named = [(variable.path, variable) for variable in variables]
        return TrainedModel(self.module.model, variables, named, self.as_torch_optimizer)

    def optimizer_inputs(self) -> list[Any]:
        return list(self.module.model.trainable_variables)

    def as_torch_optimizer(self, optimizer: Any) -> torch.optim.Optimizer:
        """Return a PyTorch optimizer that applies the constraints of Keras variables.

        `optimizer` is from Keras or PyTorch. Raises TypeError for any other object, and ValueError
        for an optimizer with its own loss scale.
        """
        variables = self.optimizer_inputs()
        if isinstance(optimizer, keras.optimizers.Optimizer):
            return KerasOptimizer(optimizer, variables)
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(
                f"optimizer() gave a {type(optimizer).__name__}: it must be an optimizer of Keras."
            )
        constrained = [variable for variable in variables if variable.constraint is not None]

        def constrain(*_: Any) -> None:
            with torch.no_grad():
                for variable in constrained:
                    variable.assign(variable.constraint(variable))

        optimizer.register_step_post_hook(constrain)
        return optimizer

    def _untrained(self) -> list[torch.Tensor]:
        return [p.detach() for p in self.module.parameters() if not p.requires_grad]


def _seed_for(rank: int, state: list[int]) -> list[int]:
    """Return the state of a seed generator for `rank`; rank 0 keeps the recipe's seed.

    Keras adds the seed and the number of draws, so seed + 1 would repeat rank 0's next draw.
    """
    seed, drawn = state
    if rank == 0:
        return state
    mixed = np.random.SeedSequence((seed % 2**32, rank)).generate_state(1)[0]
    return [int(mixed >> 1), drawn]
