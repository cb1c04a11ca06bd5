"""A model whose parameters, gradients and optimizer state are spread over the ranks (FSDP2)."""

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

SMALLEST_SHARED = 2**20
"""Parameters that a block must have to be gathered by itself: smaller ones travel together."""


class Sharded(WholeModel):
    """One rank's shards; the parameters of a module are gathered while they are needed."""

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
        """Of the training time, that in which shards were gathered or gradients scattered."""
        return min(1.0, self._watch.take() / seconds) if seconds else 0.0

    def count_parameters(self) -> int:
        return self._parameters

    def gradient_norm(self, gradients: list[torch.Tensor]) -> torch.Tensor:
        norm = nn.utils.get_total_norm(gradients)
        return norm.full_tensor() if isinstance(norm, DTensor) else norm


class _Timed:
    """A collective of FSDP's that is timed; also says where its result goes."""

    def __init__(self, watch: Stopwatch) -> None:
        self._watch = watch

    def allocate(
        self, size: Sequence[int | torch.SymInt], *, dtype: torch.dtype, device: torch.device
    ) -> torch.Tensor:
        return torch.empty(*size, dtype=dtype, device=device)


class _TimedAllGather(_Timed):
    """How the parameters of a module are gathered."""

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
    """How the gradients of a module are averaged, each rank getting its shard."""

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
    """What is gathered as a whole: the large blocks of every list, inner ones first; then the rest.

    A list is a Sequential or a ModuleList: there the repeated blocks of large models are.
    """
    blocks = [
        child
        for container in module.modules()
        if isinstance(container, nn.Sequential | nn.ModuleList)
        for child in container.children()
        if not isinstance(child, nn.ModuleList) and _size(child) >= SMALLEST_SHARED
    ]
    return [*reversed(blocks), module]


def _size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())
