"""Averages gradients over all ranks after the backward pass; DDP does it during that pass.

Until then no rank waits for another one, so a step can be computed again if a rank has failed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import distributed, nn

BUCKET_BYTES = 25 * 2**20
"""As many bytes of gradients are exchanged at once, as in DDP."""


@torch.no_grad()
def average(parameters: Sequence[nn.Parameter], *, has_equal_sets: bool) -> None:
    """Average the gradients of `parameters` in place; all ranks must call this together.

    `has_equal_sets`: the same parameters have gradients on all ranks. If not, a rank counts as 0
    where others have one.
    """
    if not has_equal_sets:
        _add_missing(parameters)
    replicas = distributed.get_world_size()

    def exchange(tensor: torch.Tensor) -> None:
        # Before the sum, as in DDP: the sum of large gradients may overflow.
        distributed.all_reduce(tensor.div_(replicas))

    dense = []
    for parameter in parameters:
        if parameter.grad is None:
            continue
        if parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
            exchange(parameter.grad)
        else:
            dense.append(parameter.grad)
    _in_buckets(dense, exchange)


@torch.no_grad()
def copy_from_first(tensors: Sequence[torch.Tensor]) -> None:
    """Copy `tensors` of rank 0, in place, to all ranks, which must call this together."""
    _in_buckets(
        # One type after the other: the buffers of BatchNorm alternate.
        sorted((tensor.detach() for tensor in tensors), key=lambda tensor: str(tensor.dtype)),
        lambda tensor: distributed.broadcast(tensor, 0),
    )


def _add_missing(parameters: Sequence[nn.Parameter]) -> None:
    """Add zeros where only other ranks have a gradient."""
    if not parameters:
        return
    flags = [float(parameter.grad is not None) for parameter in parameters]
    on_any = torch.tensor(flags, device=parameters[0].device)
    distributed.all_reduce(on_any, distributed.ReduceOp.MAX)
    for parameter, is_there in zip(parameters, on_any.tolist(), strict=True):
        if is_there and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)


def _in_buckets(
    tensors: Sequence[torch.Tensor], collective: Callable[[torch.Tensor], object]
) -> None:
    for bucket in _buckets(tensors):
        if len(bucket) == 1 and bucket[0].is_contiguous():
            collective(bucket[0])
            continue
        flat = torch.cat([tensor.reshape(-1) for tensor in bucket])
        collective(flat)
        parts = torch.split(flat, [tensor.numel() for tensor in bucket])
        views = [part.view(tensor.shape) for part, tensor in zip(parts, bucket, strict=True)]
        torch._foreach_copy_(bucket, views)


def _buckets(tensors: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Divide `tensors` into lists of one type, in the order of the tensors."""
    bucket: list[torch.Tensor] = []
    size = 0
    for tensor in tensors:
        if bucket and (size >= BUCKET_BYTES or tensor.dtype != bucket[0].dtype):
            yield bucket
            bucket, size = [], 0
        bucket.append(tensor)
        size += tensor.nbytes
    if bucket:
        yield bucket
