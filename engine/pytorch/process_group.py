"""The ranks of a pool, and what they tell each other besides gradients."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any, Protocol

import torch
from torch import distributed

from engine.worker import environment

TIMEOUT = timedelta(minutes=30)
"""Longest wait for another rank inside a collective."""


class Group(Protocol):
    """All ranks call every method, in the same order; values are on the CPU."""

    cpu: distributed.ProcessGroup | None
    """Over which the ranks exchange what lies in the host's memory; None: there is one rank."""

    def all_reduce_sum(self, values: torch.Tensor) -> torch.Tensor:
        """The sum of `values` over all ranks, on every rank."""

    def agree(self, word: tuple[int, int]) -> tuple[int, int]:
        """Rank 0's word (not negative), on every rank; the others pass zeros."""

    def share_text(self, text: str) -> str:
        """The text of the one rank that has one, on every rank; the others pass an empty one."""

    def close(self) -> None:
        """Leave the other ranks; called last."""


class SingleProcess:
    """One process: there is nobody else."""

    cpu: distributed.ProcessGroup | None = None

    def all_reduce_sum(self, values: torch.Tensor) -> torch.Tensor:
        return values

    def agree(self, word: tuple[int, int]) -> tuple[int, int]:
        return word

    def share_text(self, text: str) -> str:
        return text

    def close(self) -> None:
        pass


class ProcessGroup:
    """One process per rank; gradients go over `backend`, everything else over gloo.

    What is not a gradient must not wait for the GPU's queue, so it has a group of its own.
    """

    def __init__(self, rank: int, world_size: int, device: torch.device, backend: str) -> None:
        if backend == "auto":
            backend = "nccl" if device.type == "cuda" else "gloo"
        rendezvous = os.environ.get(environment.RENDEZVOUS)
        # Without a file of ours, another launcher (torchrun) has set MASTER_ADDR and MASTER_PORT.
        store = _file_store(rendezvous, world_size) if rendezvous else None
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

    def agree(self, word: tuple[int, int]) -> tuple[int, int]:
        first, second = self._largest(torch.tensor(word, dtype=torch.int64)).tolist()
        return first, second

    def share_text(self, text: str) -> str:
        letters = torch.tensor(list(text.encode()), dtype=torch.uint8)
        length = int(self._largest(torch.tensor([len(letters)])))
        padded = torch.nn.functional.pad(letters, (0, length - len(letters)))
        return bytes(self._largest(padded).tolist()).decode()

    def close(self) -> None:
        distributed.destroy_process_group()

    def _largest(self, values: torch.Tensor) -> torch.Tensor:
        distributed.all_reduce(values, distributed.ReduceOp.MAX, group=self.cpu)
        return values


def _file_store(path: str, world_size: int) -> Any:
    """Where the ranks of this machine find each other: needs no port, and nobody else can join."""
    return distributed.FileStore(path, world_size)  # type: ignore[attr-defined]
