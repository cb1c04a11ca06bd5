"""The tensors between two stages of a pipeline, and the module that a schedule calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import torch
from torch import nn

from engine.pytorch.parallel import Rank
from engine.pytorch.precision import Precision
from engine.training.errors import TrainingFailed


class TensorPlan(msgspec.Struct, frozen=True):
    """Shape and type of a tensor."""

    shape: tuple[int, ...]
    dtype: str
    requires_grad: bool

    def zeros(self, device: torch.device | str) -> torch.Tensor:
        """Return such a tensor on `device`."""
        dtype = getattr(torch, self.dtype)
        return torch.zeros(self.shape, dtype=dtype, device=device, requires_grad=self.requires_grad)


class StageSignature(msgspec.Struct, frozen=True):
    """The tensors that a stage sends to the next one for one micro-batch."""

    tensors: tuple[TensorPlan, ...]
    is_tuple: bool
    """Whether the outputs are a tuple of tensors, rather than one tensor."""

    def examples(self) -> tuple[torch.Tensor, ...]:
        """Return such tensors on the device `meta`, without memory."""
        return tuple(plan.zeros("meta") for plan in self.tensors)

    def pack(self, tensors: tuple[torch.Tensor, ...]) -> Any:
        """Return `tensors` as the inputs of the next stage."""
        return tensors if self.is_tuple else tensors[0]


class StageModule(nn.Module):
    """A stage as a schedule calls it: with tensors, and with a tensor or a tuple as result."""

    finish: Callable[[Any, int], torch.Tensor]
    """In the last stage: returns one tensor from a micro-batch's outputs and its number."""

    def __init__(
        self, stage: nn.Module, before: StageSignature | None, precision: Precision
    ) -> None:
        """`before` is the signature of the inputs; None: it is the first stage."""
        super().__init__()
        self.stage = stage
        self._before = before
        self._precision = precision

    def forward(self, *inputs: Any, number: torch.Tensor | None = None) -> Any:
        if self._before:
            # The received tensors are leaves of the graph, which no stage may change in place.
            inputs = tuple(tensor.clone() for tensor in inputs)
        with self._precision.autocast():
            outputs = self.stage(self._before.pack(inputs) if self._before else inputs[0])
            if number is not None:
                return self.finish(outputs, int(number))
        if isinstance(outputs, torch.Tensor):
            return outputs.contiguous()
        return tuple(output.contiguous() for output in outputs)


def stage_signatures(
    stage: nn.Module, example: Any, rank: Rank, precision: Precision
) -> tuple[StageSignature | None, StageSignature | None]:
    """Return the signatures of this stage's inputs and outputs; None where there is no neighbour.

    Stage after stage computes in evaluation mode, the first one `example` (a micro-batch), the
    others zeros. All ranks must call it together; it leaves `stage` in evaluation mode. Raises
    TrainingFailed when a stage returns something that is not a tensor or a tuple of tensors.
    """
    signatures: list[StageSignature] = []
    gpus = [rank.device] if rank.device.type == "cuda" else []
    for number in range(rank.world_size - 1):
        text = ""
        if rank.number == number:
            before = signatures[-1] if signatures else None
            stage.eval()  # zeros must not change the running statistics
            with torch.random.fork_rng(gpus), torch.enable_grad(), precision.autocast():
                inputs = before.pack(_zeros(before, rank.device)) if before else example
                text = msgspec.json.encode(_signature(stage(inputs), number)).decode()
        signatures.append(msgspec.json.decode(rank.group.broadcast_text(text), type=StageSignature))
    ends = [None, *signatures, None]
    return ends[rank.number], ends[rank.number + 1]


def _zeros(signature: StageSignature, device: torch.device) -> tuple[torch.Tensor, ...]:
    # Clones, as in StageModule: a leaf must not be changed in place.
    return tuple(plan.zeros(device).clone() for plan in signature.tensors)


def _signature(outputs: Any, number: int) -> StageSignature:
    is_tuple = isinstance(outputs, tuple | list)
    tensors = tuple(outputs) if is_tuple else (outputs,)
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        raise TrainingFailed(
            f"Stage {number} of the model gives a {type(outputs).__name__} to the next stage, and "
            "only a tensor or a tuple of tensors can travel between devices: let stages(model, "
            "count) in the recipe cut the model elsewhere."
        )
    return StageSignature(
        tuple(
            TensorPlan(
                tuple(tensor.shape), str(tensor.dtype).removeprefix("torch."), tensor.requires_grad
            )
            for tensor in tensors
        ),
        is_tuple,
    )
