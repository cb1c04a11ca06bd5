"""What every PyTorch strategy does in its workers."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from engine.strategy import Strategy

if TYPE_CHECKING:
    import torch
    from torch import nn


class TorchStrategy(Strategy):
    """A strategy whose workers run PyTorch. The methods here are called inside workers only."""

    recipe_frameworks: ClassVar[frozenset[str]] = frozenset({"torch"})

    @abstractmethod
    def connect(self, rank: int, world_size: int, device: torch.device) -> None:
        """Find the other ranks; called first."""

    @abstractmethod
    def wrap(self, model: nn.Module, device: torch.device) -> nn.Module:
        """The model that is called in training; `model` is on `device` already."""

    @abstractmethod
    def add_up(self, values: torch.Tensor) -> torch.Tensor:
        """The sum of `values` over all ranks, on every rank; `values` is on the CPU."""

    @abstractmethod
    def agree(self, word: tuple[int, int]) -> tuple[int, int]:
        """Rank 0's word (not negative), on every rank; the others pass zeros."""

    @abstractmethod
    def barrier(self) -> None:
        """Wait until all ranks are here."""

    @abstractmethod
    def disconnect(self) -> None:
        """Leave the other ranks; called last."""
