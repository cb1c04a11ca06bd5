"""A small network that is not a Sequential, with its stages; 97 samples: uneven batches."""

from itertools import pairwise

import numpy as np
import torch
from torch import nn

Pair = tuple[np.ndarray, np.ndarray]


class Residual(nn.Module):
    """Its input and a correction."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.correction = nn.Linear(width, width)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        correction: torch.Tensor = self.correction(values)
        return values + correction.tanh()


class Network(nn.Module):
    """Two layers with a residual block between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = nn.Linear(64, width)
        self.middle = Residual(width)
        self.last = nn.Linear(width, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.last(self.middle(self.first(images.flatten(1)).tanh()))
        return outputs


def model(width: int = 24) -> nn.Module:
    return Network(width)


def stages(model: Network, count: int) -> list[nn.Module]:
    """At most three stages."""
    parts = [nn.Sequential(nn.Flatten(), model.first, nn.Tanh()), model.middle, model.last]
    ends = [number * len(parts) // count for number in range(count + 1)]
    return [nn.Sequential(*parts[begin:end]) for begin, end in pairwise(ends)]


def datasets() -> tuple[Pair, Pair]:
    """Noisy pictures of ten patterns."""
    random = np.random.RandomState(0)
    labels = np.arange(130) % 10
    patterns = random.randn(10, 8, 8)
    images = (patterns[labels] + random.randn(130, 8, 8)).astype(np.float32)
    return (images[:97], labels[:97]), (images[97:], labels[97:])


def metrics(outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
    """The mean of every output: together they identify the trained function."""
    return {f"output_{k}": outputs[:, k].mean() for k in range(outputs.shape[1])}


def optimizer(parameters: list[nn.Parameter], learning_rate: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, learning_rate, momentum=0.9)
