"""A recipe with what the trials need: layers that a pipeline can cut, arrays, two metrics."""

from contextlib import nullcontext
from typing import Any, Literal

import numpy as np
import torch
from torch import nn
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.data import Dataset


def model(width: int = 16, lazy: bool = False) -> nn.Module:
    """Three layers, of which every stage of a pipeline has one: each operation costs time."""
    with _disable_current_modes() if lazy else nullcontext():  # what is lazy cannot be fake
        first = nn.LazyConv2d(width, 3, padding=1) if lazy else nn.Conv2d(1, width, 3, padding=1)
    return nn.Sequential(
        nn.Sequential(first, nn.BatchNorm2d(width)),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(width * 64, 32),
        nn.Linear(32, 10),
    )


class Rows(Dataset[Any]):
    """Samples that are fetched one by one."""

    def __init__(self, inputs: np.ndarray, targets: np.ndarray) -> None:
        self._rows = inputs, targets

    def __len__(self) -> int:
        return len(self._rows[0])

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.int64]:
        inputs, targets = self._rows
        return inputs[index], targets[index]


def datasets(data: Literal["arrays", "rows"] = "arrays") -> tuple[Any, Any]:
    """Noise of the shape of small images."""
    inputs = np.zeros((1024, 1, 8, 8), np.float32)
    targets = np.zeros(1024, np.int64)
    if data == "rows":
        return Rows(inputs, targets), Rows(inputs, targets)
    return (inputs, targets), (inputs, targets)


def metrics(outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return two metrics, so that reading them one by one shows."""
    hits = (outputs.argmax(1) == targets).float()
    return {"accuracy": hits.mean(), "confidence": outputs.float().softmax(1).amax(1).mean()}
