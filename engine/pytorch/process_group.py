"""The ranks of a pool, and what they exchange besides gradients."""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Protocol

import torch
from torch import distributed

from engine.worker import environment

TIMEOUT = timedelta(minutes=30)
"""Longest wait for another rank inside a collective."""


class Group(Protocol):
    """All ranks must call every method, in the same order; tensors are on the CPU."""

    cpu: distributed.ProcessGroup | None
    """The gloo group for tensors on the CPU; None if there is only one rank."""

    def all_reduce_sum(self, values: torch.Tensor) -> torch.Tensor:
        """Return the sum of `values` over all ranks, of any shape; may change `values` in place."""

    def agree(self, control_word: tuple[int, int]) -> tuple[int, int]:
        """Return rank 0's `control_word` (not negative) on every rank; the other ranks pass zeros.

        The protocol: an all-reduce of the maximum.
        """

    def maximum(self, numbers: Sequence[int]) -> list[int]:
        """Return the largest of each of `numbers` over all ranks."""

    def broadcast_text(self, text: str) -> str:
        """Return the text of one rank on every rank; the other ranks pass an empty text."""

    def close(self) -> None:
        """Leave the process group; call this last."""


class SingleProcess:
    """A pool of one process."""

    cpu: distributed.ProcessGroup | None = None

    def all_reduce_sum(self, values: torch.Tensor) -> torch.Tensor:
        return values

    def agree(self, control_word: tuple[int, int]) -> tuple[int, int]:
        return control_word

    def maximum(self, numbers: Sequence[int]) -> list[int]:
        return list(numbers)

    def broadcast_text(self, text: str) -> str:
        return text

    def close(self) -> None:
        pass


class ProcessGroup:
    """One process per rank; gradients use `backend`, everything else uses gloo.

    Tensors on the CPU have a gloo group, so that they never wait for the GPU's queue.
    """

    def __init__(self, rank: int, world_size: int, device: torch.device, backend: str) -> None:
        if backend == "auto":
            backend = distributed.get_default_backend_for_device(device)
        rendezvous = os.environ.get(environment.RENDEZVOUS)
        store: Any = None  # with None, PyTorch reads MASTER_ADDR and MASTER_PORT of a launcher
        if addresses := os.environ.get(environment.ADDRESSES):
            store = _tcp_store(addresses.split(",")[0], rank, world_size)
        elif rendezvous:  # a file that only this user can read
            store = distributed.FileStore(rendezvous, world_size)  # type: ignore[attr-defined]
        distributed.init_process_group(
            backend,
            store=store,
            rank=rank,
            world_size=world_size,
            timeout=TIMEOUT,
            device_id=device if backend == "nccl" else None,
        )
        self.cpu = distributed.new_group(backend="gloo", timeout=TIMEOUT)

    def all_reduce_sum(self, values: torch.Tensor) -> torch.Tensor:
        distributed.all_reduce(values, group=self.cpu)
        return values

    def agree(self, control_word: tuple[int, int]) -> tuple[int, int]:
        first, second = self.maximum(control_word)
        return first, second

    def maximum(self, numbers: Sequence[int]) -> list[int]:
        found: list[int] = self._all_reduce_max(torch.tensor(numbers, dtype=torch.int64)).tolist()
        return found

    def broadcast_text(self, text: str) -> str:
        encoded = torch.tensor(list(text.encode()), dtype=torch.uint8)
        length = int(self._all_reduce_max(torch.tensor([len(encoded)])))
        padded = torch.nn.functional.pad(encoded, (0, length - len(encoded)))
        return bytes(self._all_reduce_max(padded).tolist()).decode()

    def close(self) -> None:
        distributed.destroy_process_group()

    def _all_reduce_max(self, values: torch.Tensor) -> torch.Tensor:
        distributed.all_reduce(values, distributed.ReduceOp.MAX, group=self.cpu)
        return values


def _tcp_store(address: str, rank: int, world_size: int) -> Any:
    """Return the store by which ranks on several machines find each other; rank 0 serves it.

    It listens on `address` only: PyTorch's own server would listen on all interfaces.
    """
    host, _, port = address.rpartition(":")
    listener = None
    if rank == 0:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((host, int(port)))
            server.listen(world_size)
            listener = server.detach()
    return distributed.TCPStore(  # type: ignore[attr-defined]
        host, int(port), world_size, rank == 0, TIMEOUT, master_listen_fd=listener
    )
