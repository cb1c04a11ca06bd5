"""What travels from each stage of a pipeline to the next, and how a stage is connected to it."""

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
    """A tensor without its values."""

    shape: tuple[int, ...]
    dtype: str
    requires_grad: bool

    def zeros(self, device: torch.device | str) -> torch.Tensor:
        """Such a tensor."""
        dtype = getattr(torch, self.dtype)
        return torch.zeros(self.shape, dtype=dtype, device=device, requires_grad=self.requires_grad)


class StageSignature(msgspec.Struct, frozen=True):
    """What a stage gives to the next for one micro-batch."""

    tensors: tuple[TensorPlan, ...]
    is_tuple: bool
    """Whether that is a tuple of tensors, rather than one tensor."""

    def examples(self) -> tuple[torch.Tensor, ...]:
        """The tensors, without memory for values."""
        return tuple(plan.zeros("meta") for plan in self.tensors)

    def pack(self, tensors: tuple[torch.Tensor, ...]) -> Any:
        """The next stage's inputs."""
        return tensors if self.is_tuple else tensors[0]


class Link(nn.Module):
    """A stage as the schedule calls it: with tensors, for a tensor or a tuple of tensors."""

    finish: Callable[[Any, int], torch.Tensor]
    """In the last stage: makes one tensor of the outputs for a micro-batch and its number."""

    def __init__(
        self, stage: nn.Module, before: StageSignature | None, precision: Precision
    ) -> None:
        """`before` is what the stage gets; None: it is the first."""
        super().__init__()
        self.stage = stage
        self._before = before
        self._precision = precision

    def forward(self, *inputs: Any, number: torch.Tensor | None = None) -> Any:
        if self._before:
            # What arrives is a leaf of the graph, which the stage could not change in place.
            inputs = tuple(tensor.clone() for tensor in inputs)
        with self._precision.autocast():
            outputs = self.stage(self._before.pack(inputs) if self._before else inputs[0])
            if number is not None:
                return self.finish(outputs, int(number))
        if isinstance(outputs, torch.Tensor):
            return outputs.contiguous()
        return tuple(output.contiguous() for output in outputs)


def probe(
    stage: nn.Module, example: Any, rank: Rank, precision: Precision
) -> tuple[StageSignature | None, StageSignature | None]:
    """What arrives at this rank's stage and what it gives; None where there is no neighbour.

    Found by sending `example`, a micro-batch, through the stages in evaluation mode, with zeros
    for the values from one to the next. The ranks call it together; it leaves `stage` in
    evaluation mode. Raises TrainingFailed when something else than tensors would have to travel.
    """
    wires: list[StageSignature] = []
    gpus = [rank.device] if rank.device.type == "cuda" else []
    for number in range(rank.world_size - 1):
        told = ""
        if rank.number == number:
            before = wires[-1] if wires else None
            stage.eval()  # running statistics must not learn from zeros
            with torch.random.fork_rng(gpus), torch.enable_grad(), precision.autocast():
                inputs = before.pack(_values(before, rank.device)) if before else example
                told = msgspec.json.encode(_wire(stage(inputs), number)).decode()
        wires.append(msgspec.json.decode(rank.group.share_text(told), type=StageSignature))
    ends = [None, *wires, None]
    return ends[rank.number], ends[rank.number + 1]


def _values(wire: StageSignature, device: torch.device) -> tuple[torch.Tensor, ...]:
    # Clones, as in Link: a leaf could not be changed in place.
    return tuple(plan.zeros(device).clone() for plan in wire.tensors)


def _wire(outputs: Any, number: int) -> StageSignature:
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
