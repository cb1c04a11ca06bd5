"""A device that is out of memory, like a real one, for each part of a batch with too many samples.

It imports torch only, and draws no random numbers in a step.
"""

from __future__ import annotations

import os
from typing import Any

import torch
from torch import nn

DEFAULTS = {"epochs": 2, "batch_size": 32, "learning_rate": 0.05}

_RANK = int(os.environ.get("RANK", "0"))


def full(place: str, samples: int, call: int, fields: tuple[str, int, int, int]) -> None:
    """Raise what PyTorch raises on a GPU, if the device is too small for `samples` at once."""
    where, limit, first, rank = fields
    if place == where and rank == _RANK and limit and samples > limit and call >= first:
        raise torch.OutOfMemoryError(
            "CUDA out of memory. Tried to allocate 1.20 GiB. GPU 0 has a total capacity of 2.00 "
            "GiB of which 1.00 GiB is free."
        )


class Gate(torch.autograd.Function):
    """The identity, whose backward pass may be out of memory."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor, model: Any) -> torch.Tensor:
        ctx.model = model
        return values.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        ctx.model.check("backward")
        return gradient, None


class Model(nn.Module):
    """Two layers; `where`, `limit`, `first` and `rank` say which parts are too large."""

    def __init__(self, where: str, limit: int, first: int, rank: int) -> None:
        super().__init__()
        self.fields = (where, limit, first, rank)
        self.samples = 0
        self.lower, self.upper = nn.Linear(6, 16), nn.Linear(16, 3)
        self.calls: torch.Tensor
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def check(self, place: str) -> None:
        full(place, self.samples, int(self.calls), self.fields)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        if self.training:
            self.samples = len(inputs)
            self.calls += 1
            self.check("forward")
        hidden = Gate.apply(torch.tanh(self.lower(inputs)), self)  # type: ignore[no-untyped-call]
        outputs: torch.Tensor = self.upper(hidden)
        return outputs


_model: Model | None = None


def model(where: str = "", limit: int = 0, first: int = 4, rank: int = 1) -> nn.Module:
    global _model
    _model = Model(where, limit, first, rank)
    return _model


class Descent(torch.optim.SGD):
    """SGD, which may be out of memory when it has updated some of the parameters."""

    def step(self, closure: Any = None) -> Any:
        assert _model is not None
        parameter = self.param_groups[0]["params"][0]
        with torch.no_grad():
            kept = parameter.clone()
            parameter.add_(1.0)  # a part of an update, if it fails now
            _model.check("optimizer")
            parameter.copy_(kept)
        return super().step(closure)


def optimizer(parameters: Any, learning_rate: float) -> torch.optim.Optimizer:
    return Descent(parameters, learning_rate, momentum=0.9)


def datasets(samples: int = 70, streamed: bool = False) -> Any:
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(samples, 6, generator=generator)
    targets = inputs[:, :3].argmax(1)
    if streamed:
        return (lambda: zip(inputs, targets, strict=True)), (inputs, targets)
    return (inputs, targets), (inputs, targets)
