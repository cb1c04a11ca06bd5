"""The tensors between two stages of a pipeline, and the module that a schedule calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import torch
from torch import nn
from torch.distributed.pipelining import PipelineStage

from engine.pytorch.devices import is_gpu
from engine.pytorch.parallel import Rank
from engine.pytorch.precision import Precision
from engine.training.errors import TrainingFailed

ONLY_FLOATS = hasattr(PipelineStage, "_validate_fwd_input")
"""Whether stages exchange floating-point tensors only: PyTorch 2.11 wants a gradient of each."""


class TensorSpec(msgspec.Struct, frozen=True):
    """Shape, dtype and gradient flag of a tensor."""

    shape: tuple[int, ...]
    dtype: str
    requires_grad: bool

    def zeros(self, device: torch.device | str) -> torch.Tensor:
        """Return a tensor of zeros on `device`."""
        dtype = getattr(torch, self.dtype)
        return torch.zeros(self.shape, dtype=dtype, device=device, requires_grad=self.requires_grad)


class StageSignature(msgspec.Struct, frozen=True):
    """The tensors that a stage sends to the next one for one micro-batch."""

    tensors: tuple[TensorSpec, ...]
    is_tuple: bool
    """Whether the outputs are a tuple of tensors, rather than one tensor."""

    def examples(self) -> tuple[torch.Tensor, ...]:
        """Return tensors on the device `meta`, which need no memory."""
        return tuple(spec.zeros("meta") for spec in self.tensors)

    def pack(self, tensors: tuple[torch.Tensor, ...]) -> Any:
        """Return `tensors` as the inputs of the next stage."""
        return tensors if self.is_tuple else tensors[0]

    def zeros(self, device: torch.device) -> Any:
        """Return zeros on `device` as the inputs of the next stage."""
        # Clones, because a stage may change its inputs in place, but no leaf of the graph.
        return self.pack(tuple(spec.zeros(device).clone() for spec in self.tensors))


class StageModule(nn.Module):
    """The module that a schedule calls: takes tensors, and returns a tensor or a tuple of them."""

    process_outputs: Callable[[Any, int], torch.Tensor]
    """In the last stage: computes one tensor from the outputs and the number of a micro-batch."""

    def __init__(
        self, stage: nn.Module, input_signature: StageSignature | None, precision: Precision
    ) -> None:
        """`input_signature` is None in the first stage."""
        super().__init__()
        self.stage = stage
        self._input_signature = input_signature
        self._precision = precision

    def forward(self, *inputs: Any, number: torch.Tensor | None = None) -> Any:
        stage_inputs = inputs[0]
        if self._input_signature:
            # The received tensors are leaves of the graph, which no stage may change in place.
            stage_inputs = self._input_signature.pack(tuple(tensor.clone() for tensor in inputs))
        with self._precision.autocast():
            outputs = self.stage(stage_inputs)
            if number is not None:
                return self.process_outputs(outputs, int(number))
        if isinstance(outputs, torch.Tensor):
            return outputs.contiguous()
        return tuple(output.contiguous() for output in outputs)


def stage_signatures(
    stage: nn.Module, example: Any, rank: Rank, precision: Precision
) -> tuple[StageSignature | None, StageSignature | None]:
    """Return the signatures of this stage's inputs and outputs; None at the ends of the pipeline.

    One stage after the other computes in evaluation mode: the first one from `example` (a
    micro-batch), the others from zeros. All ranks must call this together; `stage` stays in
    evaluation mode. Raises TrainingFailed when the outputs of a stage are not tensors.
    """
    signatures: list[StageSignature] = []
    gpus = [rank.device] if is_gpu(rank.device) else []
    for number in range(rank.world_size - 1):
        text = ""
        if rank.number == number:
            input_signature = signatures[-1] if signatures else None
            stage.eval()  # zeros must not change the running statistics
            with (
                torch.random.fork_rng(gpus, device_type=rank.device.type),
                torch.enable_grad(),
                precision.autocast(),
            ):
                inputs = input_signature.zeros(rank.device) if input_signature else example
                text = msgspec.json.encode(_signature(stage(inputs), number)).decode()
        signatures.append(msgspec.json.decode(rank.group.broadcast_text(text), type=StageSignature))
    boundaries = [None, *signatures, None]
    return boundaries[rank.number], boundaries[rank.number + 1]


def _signature(outputs: Any, number: int) -> StageSignature:
    is_tuple = isinstance(outputs, tuple | list)
    tensors = tuple(outputs) if is_tuple else (outputs,)
    if not all(isinstance(tensor, torch.Tensor) for tensor in tensors):
        raise TrainingFailed(
            f"Stage {number} of the model gives a {type(outputs).__name__} to the next stage, and "
            "only a tensor or a tuple of tensors can travel between devices: let stages(model, "
            "count) in the recipe cut the model elsewhere."
        )
    for tensor in tensors if ONLY_FLOATS else ():
        if not tensor.is_floating_point():
            raise TrainingFailed(
                f"Stage {number} of the model gives a tensor of {_name_of(tensor.dtype)} to the "
                f"next stage, and those of PyTorch {torch.__version__} exchange floating-point "
                "tensors only: install PyTorch 2.12 or newer, or let stages(model, count) in the "
                "recipe cut the model elsewhere."
            )
    return StageSignature(
        tuple(
            TensorSpec(tuple(tensor.shape), _name_of(tensor.dtype), tensor.requires_grad)
            for tensor in tensors
        ),
        is_tuple,
    )


def _name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
