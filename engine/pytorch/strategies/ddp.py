"""`torch/ddp`: DistributedDataParallel, one process per device."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from engine.pytorch.strategy import TorchStrategy
from engine.strategy import WorkerPlan, one_process_per_device
from engine.worker import environment

if TYPE_CHECKING:
    import torch
    from torch import distributed, nn

TIMEOUT = timedelta(minutes=30)
"""Longest wait for another rank inside a collective."""


class DistributedDataParallel(TorchStrategy):
    """Every rank holds the whole model; gradients are averaged during the backward pass."""

    name = "torch/ddp"
    title = "Distributed data parallel (DDP)"
    summary = (
        "One process per device, each with a copy of the model; gradients are averaged while they "
        "are computed. The usual choice when the model fits on one device."
    )
    needs = "1 or more devices of one kind"

    def __init__(self) -> None:
        self._control: distributed.ProcessGroup | None = None

    def problems(self, devices: Sequence[str]) -> list[str]:
        return []

    def pool(self, devices: Sequence[str]) -> tuple[WorkerPlan, ...]:
        return one_process_per_device(devices)

    def connect(self, rank: int, world_size: int, device: torch.device) -> None:
        from torch import distributed

        backend = "nccl" if device.type == "cuda" else "gloo"
        rendezvous = os.environ.get(environment.RENDEZVOUS)
        # Without a file of ours, another launcher (torchrun) has set MASTER_ADDR and MASTER_PORT.
        store = _file_store(rendezvous, world_size) if rendezvous else None
        distributed.init_process_group(
            backend, store=store, rank=rank, world_size=world_size, timeout=TIMEOUT
        )
        # Commands and sums travel on a CPU group: they must not wait for the GPU's queue.
        self._control = distributed.new_group(backend="gloo", timeout=TIMEOUT)

    def wrap(self, model: nn.Module, device: torch.device) -> nn.Module:
        from torch.nn.parallel import DistributedDataParallel as TorchDDP

        # Harmless, and long: some kernels lay a gradient out another way than its bucket.
        warnings.filterwarnings("ignore", message="Grad strides do not match bucket view strides")
        if not any(parameter.requires_grad for parameter in model.parameters()):
            return model  # DDP refuses a model without anything to average
        return TorchDDP(model, device_ids=[device] if device.type == "cuda" else None)

    def add_up(self, values: torch.Tensor) -> torch.Tensor:
        from torch import distributed

        distributed.all_reduce(values, group=self._control)
        return values

    def agree(self, word: tuple[int, int]) -> tuple[int, int]:
        import torch
        from torch import distributed

        shared = torch.tensor(word, dtype=torch.int64)
        distributed.all_reduce(shared, distributed.ReduceOp.MAX, group=self._control)
        first, second = shared.tolist()
        return first, second

    def barrier(self) -> None:
        from torch import distributed

        distributed.barrier(group=self._control)

    def disconnect(self) -> None:
        from torch import distributed

        distributed.destroy_process_group()


def _file_store(path: str, world_size: int) -> Any:
    """Where the ranks of this machine find each other: needs no port, and nobody else can join."""
    from torch import distributed

    return distributed.FileStore(path, world_size)  # type: ignore[attr-defined]


strategy = DistributedDataParallel()
