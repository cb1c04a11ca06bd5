"""Models, loss and samples for the pipelines of `pipeline_rank`."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from engine.pytorch.recipe.torch_recipe import Values


def chain() -> nn.Sequential:
    """Layers of different sizes; some work in place."""
    return nn.Sequential(
        nn.Flatten(),
        nn.Linear(6, 8),
        nn.ReLU(inplace=True),
        nn.Linear(8, 8),
        nn.Tanh(),
        nn.Linear(8, 5),
        nn.ReLU(inplace=True),
        nn.Linear(5, 4),
    )


class Begin(nn.Module):
    """Turns a dictionary into values and a mask."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 5)

    def forward(self, given: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        image = given["image"].flatten(1)
        return self.inner(image), image[:, :5] > 0


class Middle(nn.Module):
    """Begins with an operation in place; its outputs are not contiguous."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(5, 5)

    def forward(self, given: tuple[torch.Tensor, torch.Tensor]) -> Any:
        values, mask = given
        return (self.inner(values.mul_(2.0)) * mask).T.contiguous().T, mask


class End(nn.Module):
    """Turns values and a mask into a dictionary."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(5, 4)

    def forward(self, given: tuple[torch.Tensor, torch.Tensor]) -> dict[str, torch.Tensor]:
        values, mask = given
        return {"logits": self.inner(values), "masked": mask.sum(1)}


class Failing(nn.Module):
    """A layer that computes nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 6)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.training:
            raise RuntimeError("the recipe's own error") from KeyError("what caused it")
        return inputs


def loss(outputs: Any, targets: torch.Tensor) -> torch.Tensor:
    logits = outputs["logits"] if isinstance(outputs, dict) else outputs
    return nn.functional.cross_entropy(logits, targets)


def metrics(outputs: Any, targets: torch.Tensor) -> Values:
    logits = outputs["logits"] if isinstance(outputs, dict) else outputs
    return {"largest": logits.max(), "right": (logits.argmax(1) == targets).float().mean()}


def samples(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(count)
    inputs = torch.randn(count, 2, 3, generator=generator)
    return inputs, torch.randint(4, (count,), generator=generator)
