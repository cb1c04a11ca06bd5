"""A network whose step takes about 2 ms on one core; its loss notes the time of two steps."""

import json
import os
import time
from pathlib import Path

import torch
from torch import nn

BATCH_SIZE = 64
FIRST = 300
LAST = FIRST + int(os.environ.get("OVERHEAD_STEPS", "2000"))
"""The steps between which the time is taken; before, caches warm up and chunks grow."""

calls = 0
marks: list[dict[str, float]] = []


def model() -> nn.Module:
    """A perceptron of 0.3 million parameters."""
    return nn.Sequential(
        nn.Linear(256, 400), nn.ReLU(), nn.Linear(400, 400), nn.ReLU(), nn.Linear(400, 10)
    )


def datasets() -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """Noise; one epoch is the whole measurement."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn((LAST + 10) * BATCH_SIZE, 256, generator=generator)
    targets = torch.randint(0, 10, (len(inputs),), generator=generator)
    return (inputs, targets), (inputs[:64], targets[:64])


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy; writes what it measured where OVERHEAD_RESULT says."""
    global calls
    calls += 1
    if calls in (FIRST, LAST):
        marks.append({"cpu": time.thread_time(), "wall": time.perf_counter()})
        if calls == LAST:
            took = {key: marks[1][key] - marks[0][key] for key in marks[0]}
            Path(os.environ["OVERHEAD_RESULT"]).write_text(json.dumps(took))
    return nn.functional.cross_entropy(outputs, targets)


def optimizer(parameters: list[nn.Parameter], learning_rate: float) -> torch.optim.Optimizer:
    """Plain SGD."""
    return torch.optim.SGD(parameters, learning_rate)
