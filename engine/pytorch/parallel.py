"""The part of one rank in a training step: `Parallel`, and `WholeModel` for all layers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import distributed, nn

from engine.pytorch.precision import Precision
from engine.pytorch.process_group import Group
from engine.spec.run_spec import RunSpec

LossAndMetrics = dict[str, torch.Tensor]


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
    """The recipe's loss and metrics (means over a batch), and the precision of the computation."""

    loss: Callable[[Any, Any], torch.Tensor]
    metrics: Callable[[Any, Any], LossAndMetrics]
    precision: Precision

    def loss_and_metrics(self, outputs: Any, targets: Any) -> LossAndMetrics:
        """Return loss and metrics of a batch by name: 0-d tensors on the outputs' device."""
        return {"loss": self.mean_loss(outputs, targets), **self.metrics(outputs, targets)}

    def mean_loss(self, outputs: Any, targets: Any) -> torch.Tensor:
        """Return the mean loss of a batch (0-d), also if the recipe returns one loss per sample."""
        loss = self.loss(outputs, targets)
        return loss.mean() if loss.ndim else loss


def scaled(value: torch.Tensor, factor: float) -> torch.Tensor:
    """Return `value * factor`; a factor of 1 adds no operation to the graph."""
    return value if factor == 1.0 else value * factor


class Parallel(ABC):
    """One rank's part of the model. All ranks must call every method, in the same order."""

    replica = 0
    """The number of the local batch that this rank computes, from 0."""

    replicas = 1
    """The number of local batches of a global batch in one accumulation step."""

    module: nn.Module
    """The module with this rank's parameters, under their names in the whole model."""

    device: torch.device
    """The device of the inputs and targets that the methods take."""

    @abstractmethod
    def train_batch(
        self, inputs: Any, targets: Any, weight: float, objective: Objective, *, sync: bool
    ) -> torch.Tensor:
        """Return `weight` times the mean loss over a local batch, and add its gradients.

        Gradients are added in place to the parameters' `grad`. `inputs` and `targets` are on
        `device`, samples first. The result is a detached 0-d tensor on any device; its sum over
        all ranks and local batches of a step is the mean loss over the global batch. A rank that
        does not compute the loss returns 0. `sync` is true for the last local batch of a step:
        only after that are the gradients equal on all replicas.
        """

    @abstractmethod
    def validate_batch(self, inputs: Any, targets: Any, objective: Objective) -> LossAndMetrics:
        """Return loss and metrics of a batch, without gradients; {} if this rank has no outputs."""

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

    def as_torch_optimizer(self, optimizer: Any) -> torch.optim.Optimizer:
        """Return the result of the recipe's `optimizer` as an optimizer of PyTorch."""
        result: torch.optim.Optimizer = optimizer
        return result

    def count_parameters(self) -> int:
        """Return the number of trainable parameters of the whole model, on all ranks together."""
        return sum(p.numel() for p in self.parameters())

    def gradient_norm(self, gradients: list[torch.Tensor]) -> torch.Tensor:
        """Return the 2-norm (0-d) over the whole model; `gradients` are those of this rank."""
        return nn.utils.get_total_norm(gradients)

    def running_statistics(self) -> list[torch.Tensor]:
        """Return the tensors that a training forward pass changes in place, such as BatchNorm's."""
        return [buffer for buffer in self.module.buffers() if buffer.is_floating_point()]

    def sync_buffers(self) -> None:
        """Copy rank 0's buffers (running statistics), in place, to all ranks."""
        return

    def rank_state(self) -> dict[str, torch.Tensor]:
        """Return the model state that only this rank has, for its part of a checkpoint."""
        return {}

    def load_rank_state(self, state: dict[str, torch.Tensor]) -> None:
        """Restore the state that `rank_state` returned."""
        return

    def communication_share(self, seconds: float) -> float:
        """Return the fraction of communication in the `seconds` of training since the last call."""
        return 0.0

    def free_devices(self) -> None:
        """Free all device memory except for the tensors of `module` and of the optimizer."""
        return

    def restore_devices(self) -> None:
        """Undo `free_devices`; call this after `module` is back on its devices."""
        return


class WholeModel(Parallel):
    """A rank that computes all layers: a replica, or the only process."""

    def __init__(self, module: nn.Module, rank: Rank) -> None:
        self.module = module
        self.device = rank.device
        self.replica = rank.number
        self.replicas = rank.world_size
        self._compile = rank.spec.compile
        self._forward = self.maybe_compiled(module)

    def maybe_compiled(self, module: nn.Module) -> Callable[[Any], Any]:
        """Return `module` for the training forward pass, compiled if the spec says so.

        `module.compile()` is not used, because it has no effect on an nn.Sequential.
        """
        return torch.compile(module) if self._compile else module

    def train_batch(
        self, inputs: Any, targets: Any, weight: float, objective: Objective, *, sync: bool
    ) -> torch.Tensor:
        with self.gradient_exchange(sync):
            with objective.precision.autocast():
                loss = objective.mean_loss(self.outputs(inputs), targets)
                # The weights of all local batches of a step sum to 1, so penalties count once.
                total = sum(self.penalties(), loss)
            # DDP and FSDP average over the replicas, so the weight is multiplied by their number.
            # The result is the gradient of the mean loss over the global batch, also if the local
            # batches have different sizes.
            objective.precision.backward(scaled(total, weight * self.replicas))
        return scaled(loss.detach(), weight)

    def validate_batch(self, inputs: Any, targets: Any, objective: Objective) -> LossAndMetrics:
        with torch.no_grad(), objective.precision.autocast():
            return objective.loss_and_metrics(self.validation_outputs(inputs), targets)

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
        return nullcontext()

    def sync_buffers(self) -> None:
        if self.replicas > 1:
            for buffer in self.module.buffers():
                distributed.broadcast(buffer, 0)
