"""Two networks whose loss stops now and then to do bare steps, and notes the time of both kinds."""

import json
import os
import time
from pathlib import Path
from typing import NamedTuple

import torch
from torch import nn


class Shape(NamedTuple):
    """The size of a network and of the blocks in which its steps are timed."""

    width: int
    hidden: int
    batch_size: int
    block: int
    """Steps whose time is taken at once, of either kind."""


SHAPES = {"perceptron": Shape(256, 400, 64, 200), "tiny": Shape(8, 16, 16, 1000)}
"""A step takes about 2 ms on one core, or 0.3 ms: nearly nothing but calls of PyTorch."""

CLASSES = 10
NAME = os.environ.get("OVERHEAD_MODEL", "perceptron")
SHAPE = SHAPES[NAME]
PAIRS = int(os.environ.get("OVERHEAD_PAIRS", "15"))
BLOCK = int(os.environ.get("OVERHEAD_STEPS") or SHAPE.block)
SETTLING = BLOCK // 2
"""Steps after a block of bare ones, which has made the chunks of the run short: they grow again."""

WARM_UP = 300
STEPS = WARM_UP + PAIRS * (SETTLING + BLOCK) + 10


def model() -> nn.Module:
    """A perceptron of 0.3 million parameters, or of 314."""
    width, hidden = SHAPE.width, SHAPE.hidden
    deep = [nn.Linear(hidden, hidden), nn.ReLU()] if NAME == "perceptron" else []
    return nn.Sequential(nn.Linear(width, hidden), nn.ReLU(), *deep, nn.Linear(hidden, CLASSES))


def datasets() -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """Noise; one epoch is the whole measurement."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(STEPS * SHAPE.batch_size, SHAPE.width, generator=generator)
    targets = torch.randint(0, CLASSES, (len(inputs),), generator=generator)
    return (inputs, targets), (inputs[:64], targets[:64])


def optimizer(parameters: list[nn.Parameter], learning_rate: float) -> torch.optim.Optimizer:
    """Plain SGD."""
    return torch.optim.SGD(parameters, learning_rate)


class BareLoop:
    """A loop written by hand, without any monitoring."""

    def __init__(self) -> None:
        self._model = model()
        self._optimizer = optimizer(list(self._model.parameters()), 0.01)
        (self._inputs, self._targets), _ = datasets()
        self._order = torch.randperm(len(self._inputs))

    def train(self, steps: int) -> None:
        """Do some steps."""
        size = SHAPE.batch_size
        order = self._order
        for start in range(0, steps * size, size):
            chosen = order[start : start + size]
            self._optimizer.zero_grad(set_to_none=True)
            outputs = self._model(self._inputs[chosen])
            nn.functional.cross_entropy(outputs, self._targets[chosen]).backward()  # type: ignore[no-untyped-call]
            self._optimizer.step()


class Alternation:
    """Takes the time of blocks of the run's steps, and of bare steps after each of them."""

    def __init__(self) -> None:
        self._calls = 0
        self._begin: tuple[float, float] | None = None
        self._next = WARM_UP + SETTLING
        self._pairs: list[dict[str, list[float]]] = []
        self._bare: BareLoop | None = None

    def step(self) -> None:
        """Note a step of the run, which has called its loss."""
        self._calls += 1
        if self._calls < self._next or len(self._pairs) == PAIRS:
            return
        if self._begin is None:
            self._begin, self._next = _clocks(), self._calls + BLOCK
            return
        recorded = _since(self._begin)
        self._pairs.append({"recorded": recorded, "bare": self._bare_block()})
        self._begin, self._next = None, self._calls + SETTLING
        if len(self._pairs) == PAIRS:
            Path(os.environ["OVERHEAD_RESULT"]).write_text(json.dumps(self._pairs))

    def _bare_block(self) -> list[float]:
        self._bare = self._bare or BareLoop()
        self._bare.train(BLOCK // 10)  # caches warm up
        begin = _clocks()
        self._bare.train(BLOCK)
        return _since(begin)


def _clocks() -> tuple[float, float]:
    return time.thread_time(), time.perf_counter()


def _since(begin: tuple[float, float]) -> list[float]:
    return [(now - then) / BLOCK for now, then in zip(_clocks(), begin, strict=True)]


alternation = Alternation()


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy."""
    alternation.step()
    return nn.functional.cross_entropy(outputs, targets)
