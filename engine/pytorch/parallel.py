"""How one rank takes part in a step: `Parallel`, and `WholeModel` for ranks with a whole model."""

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

Figures = dict[str, torch.Tensor]


class Rank(NamedTuple):
    """The place of one process in its pool."""

    number: int
    world_size: int
    devices: tuple[torch.device, ...]
    """The devices of this process: one per rank, or all in a pool of one process."""

    group: Group
    spec: RunSpec

    @property
    def device(self) -> torch.device:
        """The first device of this process."""
        return self.devices[0]


class Objective(NamedTuple):
    """The recipe's loss and metrics, each a mean over a batch, and the precision of the loss."""

    loss: Callable[[Any, Any], torch.Tensor]
    metrics: Callable[[Any, Any], Figures]
    precision: Precision

    def figures(self, outputs: Any, targets: Any) -> Figures:
        """Return loss and metrics of a validation batch: 0-d tensors on the outputs' device."""
        return {"loss": self.mean_loss(outputs, targets), **self.metrics(outputs, targets)}

    def mean_loss(self, outputs: Any, targets: Any) -> torch.Tensor:
        """Return the mean loss of a batch, 0-d; a recipe may return one loss per sample."""
        loss = self.loss(outputs, targets)
        return loss.mean() if loss.ndim else loss


def scaled(value: torch.Tensor, factor: float) -> torch.Tensor:
    """Return `value * factor`; a factor of 1 adds no operation to the graph."""
    return value if factor == 1.0 else value * factor


class Parallel(ABC):
    """One rank's part of the model. All ranks must call every method, in the same order."""

    replica = 0
    """Which local batch of every global batch this rank computes."""

    replicas = 1
    """How many local batches a global batch has in one accumulation step."""

    module: nn.Module
    """The module with this rank's parameters, under their names in the whole model."""

    device: torch.device
    """The device on which inputs and targets are given."""

    @abstractmethod
    def train_batch(
        self, inputs: Any, targets: Any, weight: float, objective: Objective, *, sync: bool
    ) -> torch.Tensor:
        """Add the gradients of `weight` times the mean loss over a local batch; return the product.

        Gradients are added in place to the parameters' `grad`. `inputs` and `targets` are on
        `device`, samples first. The result is a detached 0-d tensor on any device; its sum over
        all ranks and local batches of a step is the mean loss over the global batch. A rank that
        does not compute the loss returns 0. Gradients are the same on all replicas only after a
        batch with `sync`, the last one of a step.
        """

    @abstractmethod
    def validate_batch(self, inputs: Any, targets: Any, objective: Objective) -> Figures:
        """Return `objective.figures` of a batch, without gradients; {} without outputs."""

    def train(self) -> None:
        """Switch to training."""
        self.module.train()

    def evaluate(self) -> None:
        """Make the buffers of all ranks the same, and switch to validation."""
        self.sync_buffers()
        self.module.eval()

    def parameters(self) -> list[nn.Parameter]:
        """Return the parameters that the optimizer updates."""
        return [p for p in self.module.parameters() if p.requires_grad]

    def count_parameters(self) -> int:
        """Return how many trainable parameters the whole model has, on all ranks together."""
        return sum(p.numel() for p in self.parameters())

    def gradient_norm(self, gradients: list[torch.Tensor]) -> torch.Tensor:
        """Return the 2-norm of all gradients of the whole model: a 0-d tensor.

        `gradients` are those of this rank.
        """
        return nn.utils.get_total_norm(gradients)

    def running_statistics(self) -> list[torch.Tensor]:
        """Return the tensors that a training forward pass changes in place, as in BatchNorm."""
        return [buffer for buffer in self.module.buffers() if buffer.is_floating_point()]

    def sync_buffers(self) -> None:
        """Copy rank 0's buffers (running statistics), in place, to all ranks."""
        return

    def local_state(self) -> dict[str, torch.Tensor]:
        """Return the state of the model that only this rank has, for its part of a checkpoint."""
        return {}

    def load_local_state(self, state: dict[str, torch.Tensor]) -> None:
        """Restore what `local_state` returned."""
        return

    def communication_share(self, seconds: float) -> float:
        """Return the fraction of the training time that was communication, 0 to 1.

        `seconds` is the training time since the last call.
        """
        return 0.0

    def free_devices(self) -> None:
        """Free all device memory except for the tensors of `module` and of the optimizer."""
        return

    def restore_devices(self) -> None:
        """Undo `free_devices`, after `module` was moved back to its devices."""
        return


class WholeModel(Parallel):
    """A rank that computes outputs from inputs by itself: a replica, or the only process."""

    def __init__(self, module: nn.Module, rank: Rank) -> None:
        self.module = module
        self.device = rank.device
        self.replica = rank.number
        self.replicas = rank.world_size
        self._compile = rank.spec.compile
        self._called = self.compiled(module)

    def compiled(self, module: nn.Module) -> Callable[[Any], Any]:
        """Return what is called in training for `module`: itself, or its compiled form.

        `module.compile()` is not used, because it has no effect on an nn.Sequential.
        """
        return torch.compile(module) if self._compile else module

    def train_batch(
        self, inputs: Any, targets: Any, weight: float, objective: Objective, *, sync: bool
    ) -> torch.Tensor:
        with self.gradient_exchange(sync):
            with objective.precision.autocast():
                loss = objective.mean_loss(self.outputs(inputs), targets)
                # The weights of a step sum to 1, so the penalties count once.
                total = sum(self.penalties(), loss)
            # DDP and FSDP average over the replicas, so the weight is multiplied by their number.
            # The result is the gradient of the mean over the global batch, also if its local
            # batches have different sizes.
            objective.precision.backward(scaled(total, weight * self.replicas))
        return scaled(loss.detach(), weight)

    def validate_batch(self, inputs: Any, targets: Any, objective: Objective) -> Figures:
        with torch.no_grad(), objective.precision.autocast():
            return objective.figures(self.validation_outputs(inputs), targets)

    def outputs(self, inputs: Any) -> Any:
        """Return the model's outputs in training."""
        return self._called(inputs)

    def penalties(self) -> Sequence[torch.Tensor]:
        """Return the terms that the model itself adds to the loss, after a call of `outputs`."""
        return ()

    def validation_outputs(self, inputs: Any) -> Any:
        """Return the model's outputs in validation."""
        return self.module(inputs)

    def gradient_exchange(self, sync: bool) -> AbstractContextManager[Any]:
        """Return a context for both passes; only with `sync` are gradients averaged at its end."""
        return nullcontext()

    def sync_buffers(self) -> None:
        if self.replicas > 1:
            for buffer in self.module.buffers():
                distributed.broadcast(buffer, 0)  # a checkpoint holds those of rank 0
