"""The default loss and optimizer of a PyTorch recipe, and the build of lazy modules."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return cross-entropy from logits for integer targets, else mean squared error: 0-d."""
    if targets.is_floating_point():
        return nn.functional.mse_loss(outputs, targets)
    return nn.functional.cross_entropy(outputs, targets)


def optimizer(
    parameters: Any, learning_rate: float, precision: str = "default"
) -> torch.optim.Optimizer:
    """Return AdamW."""
    fused = is_fused(precision, parameters)
    return torch.optim.AdamW(parameters, learning_rate, fused=fused)


def is_fused(precision: str, parameters: Any) -> bool | None:
    """Return whether an optimizer of these parameters is made `fused`; None: PyTorch decides.

    A fused one leaves out the steps whose gradients are not finite on the GPU itself. For any
    other, the host would wait at each step of fp16 to read whether they are.
    """
    return True if precision == "fp16" and all(p.is_cuda for p in parameters) else None


@torch.no_grad()
def build(model: nn.Module, inputs: Any) -> None:
    """Create the lazy parameters of `model`, in place, by one call with `inputs`."""
    if any(is_lazy(parameter) for parameter in model.parameters()):
        model(inputs)
