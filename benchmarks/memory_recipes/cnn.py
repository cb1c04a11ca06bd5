"""A convolutional network with BatchNorm and AdamW, on made-up images."""

from itertools import pairwise

import torch
from torch import nn

DEFAULTS = {"epochs": 1, "batch_size": 64, "learning_rate": 0.001}


def model(width: int = 64) -> nn.Module:
    """Three convolutions, each with twice the channels of the one before."""
    channels = [3, width, 2 * width, 4 * width]
    layers: list[nn.Module] = []
    for before, after in pairwise(channels):
        layers += [
            nn.Conv2d(before, after, 3, padding=1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(4 * width * 16, 1000))


def datasets() -> tuple[tuple[torch.Tensor, torch.Tensor], None]:
    """Random images and classes."""
    random = torch.Generator().manual_seed(0)
    images = torch.randn(2048, 3, 32, 32, generator=random)
    return (images, torch.randint(0, 1000, (2048,), generator=random)), None


def optimizer(model: nn.Module, learning_rate: float) -> torch.optim.Optimizer:
    """AdamW has two values for each weight."""
    return torch.optim.AdamW(model.parameters(), lr=learning_rate)
