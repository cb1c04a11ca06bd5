"""A model whose parameters, gradients and optimizer state are sharded over the ranks (FSDP2)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, cast

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from engine.pytorch.parallel import Rank, WholeModel
from engine.pytorch.precision import MIXED
from engine.pytorch.stopwatch import Stopwatch

MIN_UNIT_PARAMETERS = 2**20
"""Blocks with fewer parameters are gathered together with the module around them."""


class FSDPModel(WholeModel):
    """One rank's shards; the parameters of a unit are gathered while they are needed.

    All ranks must make it together.
    """

    def __init__(self, module: nn.Module, rank: Rank) -> None:
        super().__init__(module, rank)
        self._parameters = sum(p.numel() for p in module.parameters() if p.requires_grad)
        dtype = MIXED.get(rank.spec.precision)
        policy = MixedPrecisionPolicy(
            param_dtype=dtype, reduce_dtype=torch.float32, output_dtype=torch.float32
        )
        mesh = init_device_mesh(rank.device.type, (rank.world_size,))
        for part in _units(module):
            fully_shard(part, mesh=mesh, mp_policy=policy if dtype else MixedPrecisionPolicy())
        self._watch = Stopwatch(rank.device)
        for part in module.modules():
            if isinstance(part, FSDPModule):
                part.set_custom_all_gather(cast(Any, _TimedAllGather(self._watch)))
                part.set_custom_reduce_scatter(cast(Any, _TimedReduceScatter(self._watch)))

    def gradient_exchange(self, sync: bool) -> AbstractContextManager[Any]:
        cast(FSDPModule, self.module).set_requires_gradient_sync(sync)
        return nullcontext()

    def communication_share(self, seconds: float) -> float:
        """Return the fraction of `seconds` in all-gather and reduce-scatter."""
        return min(1.0, self._watch.read_and_reset() / seconds) if seconds else 0.0

    def count_parameters(self) -> int:
        return self._parameters

    def gradient_norm(self, gradients: list[torch.Tensor]) -> torch.Tensor:
        norm = nn.utils.get_total_norm(gradients)
        return norm.full_tensor() if isinstance(norm, DTensor) else norm


class _Timed:
    """A timed collective of FSDP; also allocates its result."""

    def __init__(self, watch: Stopwatch) -> None:
        self._watch = watch

    def allocate(
        self, size: Sequence[int | torch.SymInt], *, dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)


class _TimedAllGather(_Timed):
    """The all-gather of the parameters of a unit."""

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: distributed.ProcessGroup,
        async_op: bool = False,
    ) -> distributed.Work | None:
        with self._watch.running():
            work: distributed.Work | None = distributed.all_gather_into_tensor(
                output_tensor, input_tensor, group=group, async_op=async_op
            )
        return work


class _TimedReduceScatter(_Timed):
    """The reduce-scatter of the gradients of a unit: each rank gets its shard of the mean."""

    def __call__(
        self,
        output_tensor: torch.Tensor,
        input_tensor: torch.Tensor,
        group: distributed.ProcessGroup,
        op: Any,
        async_op: bool = False,
    ) -> distributed.Work | None:
        with self._watch.running():
            work: distributed.Work | None = distributed.reduce_scatter_tensor(
                output_tensor, input_tensor, op, group=group, async_op=async_op
            )
        return work


def _units(module: nn.Module) -> list[nn.Module]:
    """Return the modules that are gathered as units: large blocks, inner ones first; then `module`.

    Blocks are the children of a Sequential or a ModuleList, as the layers of large models are.
    """
    blocks = [
        child
        for container in module.modules()
        if isinstance(container, nn.Sequential | nn.ModuleList)
        for child in container.children()
        if not isinstance(child, nn.ModuleList) and _size(child) >= MIN_UNIT_PARAMETERS
    ]
    return [*reversed(blocks), module]


def _size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())
