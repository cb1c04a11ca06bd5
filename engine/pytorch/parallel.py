"""The part of one rank in a training step: `Parallel`, and `WholeModel` for all layers."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, NamedTuple, cast

import torch
from torch import distributed, nn

from engine.pytorch.compilation import compile_forward
from engine.pytorch.precision import NOTHING, Precision
from engine.pytorch.process_group import Group
from engine.pytorch.recipe.torch_recipe import (
    Loss,
    Metrics,
    Step,
    TrainedModel,
    Turn,
    Validate,
    Values,
)
from engine.spec.run_spec import RunSpec
from engine.training.errors import TrainingFailed
from engine.training.probes.keras_layers import NoteOutputs

ONLY = Turn()
"""The turn of the only optimizer, with nothing carried into it."""


CUDA_GRAPHS = "torch._inductor.cudagraph_trees"
"""The module that torch.compile imports for CUDA graphs, as for mode="reduce-overhead"."""

RecipeFunction = Callable[[Any, Any], Values]
"""A function of the recipe that takes the model and a batch."""


class Rank(NamedTuple):
    """The place of one process in its pool."""

    number: int
    world_size: int
    devices: tuple[torch.device, ...]
    """The devices of this process: one, or all devices in a pool of one process."""

    group: Group
    spec: RunSpec

    @property
    def device(self) -> torch.device:
        """The first device of this process."""
        return self.devices[0]


class Objective(NamedTuple):
    """What a recipe computes from a batch, and the precision of the computation.

    All results are means over the batch.
    """

    loss: Loss
    metrics: Metrics
    precision: Precision
    step: Step | None = None
    """In the place of `loss`, if the recipe has one."""

    weight: Callable[[Any], float] | None = None
    """What the loss is the mean of; None: samples."""

    validate: Validate | None = None
    """In the place of `step`, or of `loss` and `metrics`, in validation."""

    sample_loss: Loss | None = None
    """The loss of each sample of outputs and targets; of model and batch if there is a `step`."""

    def loss_and_metrics(self, outputs: Any, targets: Any) -> Values:
        """Return loss and metrics of a batch by name: 0-d tensors on the outputs' device."""
        return {"loss": self.mean_loss(outputs, targets), **self.metrics(outputs, targets)}

    def mean_loss(self, outputs: Any, targets: Any) -> torch.Tensor:
        """Return the mean loss of a batch (0-d), also if the recipe returns one loss per sample."""
        loss = self.loss(outputs, targets)
        return loss.mean() if loss.ndim else loss


class RecipeCall(nn.Module):
    """A call of a recipe's function with the model, as the forward pass of a module.

    What is wrapped around it, such as DDP, sees all that the function does with the model.
    """

    def __init__(self, module: nn.Module, model: Any) -> None:
        """`module` has the parameters of `model`, which the function gets."""
        super().__init__()
        self.module = module
        self._model_holder = (model,)  # the tuple hides it: it may be a module around `module`

    def forward(self, function: RecipeFunction, batch: Any) -> Values:
        return function(self._model_holder[0], batch)


def loss_of(values: Values) -> torch.Tensor:
    """Return the loss, which is always a tensor."""
    return cast(torch.Tensor, values["loss"])


def scaled(value: torch.Tensor, factor: float) -> torch.Tensor:
    """Return `value * factor`; a factor of 1 adds no operation to the graph.

    With a factor of 0 the result is finite: a mean over nothing is NaN, and counts nothing.
    """
    if factor == 0.0:
        value = value.nan_to_num(0.0, 0.0, 0.0)
    return value if factor == 1.0 else value * factor


def scaled_values(values: Values, factor: float) -> Values:
    """Return detached `values`, each times `factor`."""
    if CUDA_GRAPHS in sys.modules:  # the next replay of a graph overwrites what it has given
        values = {
            name: value.detach().clone() if isinstance(value, torch.Tensor) else value
            for name, value in values.items()
        }
    return {
        name: scaled(value.detach(), factor)
        if isinstance(value, torch.Tensor)
        else value * factor
        if factor
        else 0.0
        for name, value in values.items()
    }


class Parallel(ABC):
    """One rank's part of the model. All ranks must call every method, in the same order."""

    replica = 0
    """The number of the local batch that this rank computes, from 0."""

    replicas = 1
    """The number of local batches of a global batch in one accumulation step."""

    doing = ""
    """The part of a step that is computed: `forward` or `backward`."""

    can_repeat_steps = False
    """Whether a step reaches no other rank before `exchange_gradients`: then it can be computed
    again, also if a rank has failed in the middle of it."""

    module: nn.Module
    """The module with this rank's parameters, under their names in the whole model."""

    _trained_by: Mapping[str, Sequence[nn.Parameter]]

    device: torch.device
    """The device of the inputs and targets that the methods take."""

    @abstractmethod
    def train_batch(
        self, batch: Any, weight: float, objective: Objective, *, sync: bool, turn: Turn = ONLY
    ) -> Values:
        """Return `weight` times the loss (a mean over a local batch), and add its gradients.

        Gradients are added in place to the parameters' `grad`. `batch` is on `device`, samples
        first; a pair of inputs and targets if the objective has no step. With a step, the result
        has its other values too. They are detached; their sums over all ranks and local batches of
        a step are the means over the global batch. A rank that does not compute the loss returns 0.
        `sync` is true for the last local batch of a step: only after that, and after
        `exchange_gradients`, are the gradients equal on all replicas.
        """

    @abstractmethod
    def validate_batch(self, batch: Any, objective: Objective, turn: Turn = ONLY) -> Values:
        """Return loss and metrics of a batch, without gradients; {} if this rank has no outputs."""

    def loss_alone(self, batch: Any, objective: Objective, turn: Turn) -> torch.Tensor:
        """Return the loss of a batch with its graph, which no other rank takes part in.

        Raises TrainingFailed where the model is divided over ranks.
        """
        raise TrainingFailed("the strategy divides the model over its ranks.")

    def watch_layers(self, note: NoteOutputs) -> list[Callable[[], object]]:
        """Call `note` with the name, the layer, its inputs and its outputs after each forward pass
        of a layer of this rank. Return functions that end this."""
        return [
            layer.register_forward_hook(partial(_note_of, note, name)).remove
            for name, layer in self.module.named_modules()
        ]

    def exchange_gradients(self, optimizer: str, *, has_equal_sets: bool) -> None:
        """Average what the local batches of a step have added for an optimizer, if that is left.

        `has_equal_sets`: the same parameters have gradients on all ranks.
        """
        return

    def train(self) -> None:
        """Switch to training mode."""
        self.module.train()

    def evaluate(self) -> None:
        """Copy the buffers of rank 0 to all ranks, and switch to evaluation mode."""
        self.sync_buffers()
        self.module.eval()

    def parameters(self) -> list[nn.Parameter]:
        """Return the parameters that the optimizer updates."""
        return [p for p in self.module.parameters() if p.requires_grad]

    def optimizer_inputs(self) -> Any:
        """Return the parameters for the recipe's `optimizer(parameters, learning_rate)`."""
        return self.parameters()

    @property
    def placed_module(self) -> nn.Module:
        """The module that moves all parameters of this rank to another device."""
        return self.module

    def needs_all_gradients(self) -> bool:
        """Return whether each step must give all parameters a gradient."""
        return False

    def allow_missing_gradients(self) -> None:
        """From now on, let steps leave out parameters; all ranks must call this together."""
        return

    def end_trial(self) -> None:
        """Free what only a trial before the training needed."""
        return

    def reshard(self) -> None:
        """Forget copies of parameters: they are about to be changed in place."""
        return

    def recipe_model(self) -> Any:
        """Return the model as the functions of the recipe know it."""
        return self.module

    def trained_model(self) -> TrainedModel:
        """Return the model for the recipe's functions that make optimizers."""
        return TrainedModel(
            self.recipe_model(),
            self.optimizer_inputs(),
            [(name, p) for name, p in self.module.named_parameters() if p.requires_grad],
            self.as_torch_optimizer,
        )

    def as_torch_optimizer(self, optimizer: Any) -> torch.optim.Optimizer:
        """Return the result of the recipe's `optimizer` as an optimizer of PyTorch.

        Raises TypeError for any other object.
        """
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise TypeError(
                f"optimizer() gave a {type(optimizer).__name__}: it must be an optimizer of "
                "PyTorch."
            )
        return optimizer

    def use_optimizers(self, parameters: Mapping[str, Sequence[nn.Parameter]]) -> None:
        """Prepare for steps of several optimizers, given the parameters of each by its name."""
        self._trained_by = parameters

    def training_only(self, optimizer: str) -> AbstractContextManager[Any]:
        """Return a context in which only the parameters of `optimizer`, of several, get gradients.

        Others may get some where this cannot be had: they are deleted before they are used.
        """
        own = {id(parameter) for parameter in self._trained_by[optimizer]}
        others = [p for of in self._trained_by.values() for p in of if id(p) not in own]
        return _frozen(others)

    def count_parameters(self) -> int:
        """Return the number of trainable parameters of the whole model, on all ranks together."""
        return sum(p.numel() for p in self.parameters())

    def gradient_norm(self, gradients: list[torch.Tensor]) -> torch.Tensor:
        """Return the 2-norm (0-d) over the whole model; `gradients` are those of this rank."""
        return nn.utils.get_total_norm(gradients)

    def running_statistics(self) -> list[torch.Tensor]:
        """Return the tensors that a training forward pass changes in place, such as BatchNorm's."""
        return [buffer for buffer in self.module.buffers() if buffer.is_floating_point()]

    def changed_tensors(self) -> list[torch.Tensor]:
        """Return all tensors that a training forward pass may change in place."""
        return list(self.module.buffers())

    def sync_buffers(self) -> None:
        """Copy rank 0's buffers (running statistics), in place, to all ranks."""
        return

    def rank_state(self) -> dict[str, torch.Tensor]:
        """Return the model state that only this rank has, for its part of a checkpoint."""
        return {}

    def load_rank_state(self, state: dict[str, torch.Tensor]) -> None:
        """Restore the state that `rank_state` returned."""
        return

    def communication_seconds(self, steps: int) -> float:
        """Return the seconds of communication in the `steps` since the last call."""
        return 0.0

    def free_devices(self) -> None:
        """Free all device memory except for the tensors of `module` and of the optimizer."""
        return

    def restore_devices(self) -> None:
        """Undo `free_devices`; call this after `module` is back on its devices."""
        return


@contextmanager
def _frozen(parameters: Sequence[nn.Parameter]) -> Iterator[None]:
    """Let `parameters` get no gradients inside the context."""
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)


def _note_of(note: NoteOutputs, name: str, layer: nn.Module, inputs: Any, outputs: Any) -> None:
    note(name, layer, inputs, outputs)


def _with_turn(step: Step, turn: Turn) -> RecipeFunction:
    return lambda model, batch: step(model, batch, turn)


class WholeModel(Parallel):
    """A rank that computes all layers: a replica, or the only process."""

    def __init__(
        self, module: nn.Module, rank: Rank, parts: Sequence[nn.Module] | None = None
    ) -> None:
        """`parts` of `module` are compiled one by one if the spec says so; None: it as a whole."""
        self.module = module
        self.device = rank.device
        self.replica = rank.number
        self.replicas = rank.world_size
        self.can_repeat_steps = self.replicas == 1
        self._forward: Callable[[Any], Any] = module
        self._recipe_call = RecipeCall(module, self.recipe_model())
        if rank.spec.compile:
            for part in [module] if parts is None else parts:
                compile_forward(part)

    def train_batch(
        self, batch: Any, weight: float, objective: Objective, *, sync: bool, turn: Turn = ONLY
    ) -> Values:
        self.doing = "forward"
        with self.gradient_exchange(sync):
            with objective.precision.autocast():
                values = self.training_values(batch, objective, turn)
                # The weights of all local batches of a step sum to 1, so penalties count once.
                total = sum(self.penalties(), loss_of(values))
            # DDP and FSDP average over the replicas, so the weight is multiplied by their number.
            # The result is the gradient of the mean loss over the global batch, also if the local
            # batches have different sizes.
            self.doing = "backward"
            objective.precision.backward(scaled(total, weight * self.replicas))
        return scaled_values(values, weight)

    def validate_batch(self, batch: Any, objective: Objective, turn: Turn = ONLY) -> Values:
        with torch.no_grad(), objective.precision.autocast():
            if objective.validate:
                return self.call_in_validation(objective.validate, batch)
            if objective.step:
                return self.call_in_validation(_with_turn(objective.step, turn), batch)
            inputs, targets = batch
            return objective.loss_and_metrics(self.validation_outputs(inputs), targets)

    def loss_alone(self, batch: Any, objective: Objective, turn: Turn) -> torch.Tensor:
        with objective.precision.autocast():
            if objective.step:
                return loss_of(self.call_in_validation(_with_turn(objective.step, turn), batch))
            inputs, targets = batch
            return objective.mean_loss(self.validation_outputs(inputs), targets)

    def training_values(self, batch: Any, objective: Objective, turn: Turn) -> Values:
        """Return the loss of a batch with its graph, and the other values of a step."""
        if objective.step:
            return self.call_in_training(_with_turn(objective.step, turn), batch, turn.optimizer)
        inputs, targets = batch
        return {"loss": objective.mean_loss(self.outputs(inputs), targets)}

    def call_in_training(self, function: RecipeFunction, batch: Any, optimizer: str) -> Values:
        """Call a function of the recipe with the model and `batch`, in training."""
        values: Values = self._recipe_call(function, batch)
        return values

    def call_in_validation(self, function: RecipeFunction, batch: Any) -> Values:
        """Call a function of the recipe with the model and `batch`, in validation."""
        values: Values = self._recipe_call(function, batch)
        return values

    def outputs(self, inputs: Any) -> Any:
        """Return the model's outputs in training."""
        return self._forward(inputs)

    def penalties(self) -> Sequence[torch.Tensor]:
        """Return the regularisation terms of the model, after a call of `outputs`."""
        return ()

    def validation_outputs(self, inputs: Any) -> Any:
        """Return the model's outputs in validation."""
        return self.module(inputs)

    def gradient_exchange(self, sync: bool) -> AbstractContextManager[Any]:
        """Return a context for forward and backward pass that averages gradients only if `sync`."""
        return NOTHING

    def sync_buffers(self) -> None:
        if self.replicas > 1:
            for buffer in self.module.buffers():
                distributed.broadcast(buffer, 0)
