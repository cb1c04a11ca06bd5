"""`torch/single`: one device, no communication."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from engine.pytorch.strategy import TorchStrategy
from engine.strategy import WorkerPlan, one_process

if TYPE_CHECKING:
    import torch
    from torch import nn


class Single(TorchStrategy):
    """The plain loop on one device."""

    name = "torch/single"
    title = "Single device"
    summary = (
        "The plain PyTorch loop on one device: the reference that every other strategy equals."
    )
    needs = "1 device"

    def problems(self, devices: Sequence[str]) -> list[str]:
        if len(devices) > 1:
            return [
                f"{self.name} trains on 1 device and {len(devices)} are chosen: "
                "choose one device, or the strategy torch/ddp."
            ]
        return []

    def pool(self, devices: Sequence[str]) -> tuple[WorkerPlan, ...]:
        return one_process(devices)

    def connect(self, rank: int, world_size: int, device: torch.device) -> None:
        pass  # there is nobody else

    def wrap(self, model: nn.Module, device: torch.device) -> nn.Module:
        return model

    def add_up(self, values: torch.Tensor) -> torch.Tensor:
        return values

    def agree(self, word: tuple[int, int]) -> tuple[int, int]:
        return word

    def barrier(self) -> None:
        pass  # there is nobody else

    def disconnect(self) -> None:
        pass  # there is nobody else


strategy = Single()
