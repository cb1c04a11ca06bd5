"""A convolutional network whose data set makes each sample when it is read."""

import torch
from torch import nn
from torch.utils.data import Dataset

DEFAULTS = {"epochs": 1, "batch_size": 64, "learning_rate": 0.001}


class Pictures(Dataset[tuple[torch.Tensor, int]]):
    """Random images, each from a generator of its own."""

    def __len__(self) -> int:
        """As many as an epoch has."""
        return 2048

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        """One image, and its class."""
        random = torch.Generator().manual_seed(index)
        return torch.randn(3, 64, 64, generator=random), index % 10


def model(channels: int = 32) -> nn.Module:
    """Two convolutions over the whole image."""
    return nn.Sequential(
        nn.Conv2d(3, channels, 3, padding=1),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        nn.Conv2d(channels, channels, 3, padding=1),
        nn.BatchNorm2d(channels),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, 10),
    )


def datasets() -> tuple[Pictures, None]:
    """The images, and no validation."""
    return Pictures(), None
