"""How one rank takes part in a step: `Parallel`, and the one for ranks that hold a whole model."""

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
    """What one process is in its pool."""

    number: int
    world_size: int
    devices: tuple[torch.device, ...]
    """Those of this process: one, or all of them where one process has them all."""

    group: Group
    spec: RunSpec

    @property
    def device(self) -> torch.device:
        """The first one."""
        return self.devices[0]


class Objective(NamedTuple):
    """What is trained for: the recipe's loss and metrics, each a mean over the samples given."""

    loss: Callable[[Any, Any], torch.Tensor]
    metrics: Callable[[Any, Any], Figures]
    precision: Precision

    def figures(self, outputs: Any, targets: Any) -> Figures:
        """Loss and metrics of a validation batch."""
        return {"loss": self.mean_loss(outputs, targets), **self.metrics(outputs, targets)}

    def mean_loss(self, outputs: Any, targets: Any) -> torch.Tensor:
        """The loss of a batch as one number."""
        loss = self.loss(outputs, targets)
        return loss.mean() if loss.ndim else loss


def scaled(value: torch.Tensor, factor: float) -> torch.Tensor:
    """`value * factor`; each operation less is one less in the backward pass of every step."""
    return value if factor == 1.0 else value * factor


class Parallel(ABC):
    """One rank's part of the model. All ranks call every method, in the same order."""

    replica = 0
    """Which share of every batch this rank computes."""

    replicas = 1
    """How many shares there are."""

    module: nn.Module
    """Holds this rank's parameters, on their devices, under their names in the whole model."""

    device: torch.device
    """Where the inputs go."""

    @abstractmethod
    def train_batch(
        self, inputs: Any, targets: Any, weight: float, objective: Objective, *, sync: bool
    ) -> torch.Tensor:
        """Add the gradient of `weight` times the mean loss over the batch; that product.

        Summed over all ranks and batches of a step it is the mean loss over the global batch. The
        gradients need be the same on all replicas only after a batch with `sync`. A rank that does
        not see the loss gives 0. The result is detached, on any device.
        """

    @abstractmethod
    def validate_batch(self, inputs: Any, targets: Any, objective: Objective) -> Figures:
        """`objective.figures` of the batch, without gradients; empty on a rank without outputs."""

    def train(self) -> None:
        """What comes next is training."""
        self.module.train()

    def evaluate(self) -> None:
        """What comes next is validation."""
        self.sync_buffers()
        self.module.eval()

    def parameters(self) -> list[nn.Parameter]:
        """What the optimizer updates."""
        return [p for p in self.module.parameters() if p.requires_grad]

    def count_parameters(self) -> int:
        """Trainable parameters of the whole model."""
        return sum(p.numel() for p in self.parameters())

    def gradient_norm(self, gradients: list[torch.Tensor]) -> torch.Tensor:
        """The 2-norm of all gradients of the whole model, given this rank's; a 0-d tensor."""
        return nn.utils.get_total_norm(gradients)

    def statistics(self) -> list[torch.Tensor]:
        """What a forward pass in training changes on this rank, such as running statistics."""
        return [buffer for buffer in self.module.buffers() if buffer.is_floating_point()]

    def sync_buffers(self) -> None:
        """Make what the ranks hold besides parameters (running statistics) the same."""
        return

    def local_state(self) -> dict[str, torch.Tensor]:
        """What of the model's state belongs to this rank alone, for its part of a checkpoint."""
        return {}

    def load_local_state(self, state: dict[str, torch.Tensor]) -> None:
        """Take back what `local_state` gave."""
        return

    def communication_share(self, seconds: float) -> float:
        """Share of the time since the last call in which this rank waited for others; 0 to 1.

        `seconds` is how long it has trained since then.
        """
        return 0.0

    def leave_devices(self) -> None:
        """Let go of everything on the devices that `module` and the optimizer do not own."""
        return

    def return_to_devices(self) -> None:
        """Make that again; `module` is back in its place."""
        return


class WholeModel(Parallel):
    """A rank that can compute outputs for inputs by itself: a replica, or the only process."""

    def __init__(self, module: nn.Module, rank: Rank) -> None:
        self.module = module
        self.device = rank.device
        self.replica = rank.number
        self.replicas = rank.world_size
        self._compile = rank.spec.compile
        self._called = self.compiled(module)

    def compiled(self, module: nn.Module) -> Callable[[Any], Any]:
        """What is called in training for `module`: itself, or its compiled form.

        Not `module.compile()`, which does nothing for an nn.Sequential.
        """
        return torch.compile(module) if self._compile else module

    def train_batch(
        self, inputs: Any, targets: Any, weight: float, objective: Objective, *, sync: bool
    ) -> torch.Tensor:
        with self.gradient_exchange(sync):
            with objective.precision.autocast():
                loss = objective.mean_loss(self.outputs(inputs), targets)
                # All weights of a step add up to 1, so penalties count once.
                total = sum(self.penalties(), loss)
            # Averaged over the replicas, so the weight holds their number: the result is the
            # gradient of the mean over the global batch, however unevenly it is shared.
            objective.precision.backward(scaled(total, weight * self.replicas))
        return scaled(loss.detach(), weight)

    def validate_batch(self, inputs: Any, targets: Any, objective: Objective) -> Figures:
        with torch.no_grad(), objective.precision.autocast():
            return objective.figures(self.validation_outputs(inputs), targets)

    def outputs(self, inputs: Any) -> Any:
        """The model's outputs in training."""
        return self._called(inputs)

    def penalties(self) -> Sequence[torch.Tensor]:
        """What the model adds to the loss besides the recipe's, after `outputs`."""
        return ()

    def validation_outputs(self, inputs: Any) -> Any:
        """The model's outputs in validation."""
        return self.module(inputs)

    def gradient_exchange(self, sync: bool) -> AbstractContextManager[Any]:
        """A context for forward and backward pass, with or without an exchange of gradients."""
        return nullcontext()

    def sync_buffers(self) -> None:
        """Everybody takes rank 0's buffers: it is rank 0 whose statistics are saved."""
        if self.replicas > 1:
            for buffer in self.module.buffers():
                distributed.broadcast(buffer, 0)
