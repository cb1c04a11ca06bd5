"""Handwritten digits, 8 x 8 pixels, with a small convolutional network: seconds on a CPU."""

from typing import Literal

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

DEFAULTS = {"epochs": 20, "batch_size": 64, "learning_rate": 0.003}


def model(
    width: int = 32, dropout: float = 0.1, activation: Literal["relu", "gelu", "tanh"] = "relu"
) -> nn.Module:
    """Two convolutions of `width` and 2 x `width` channels, then a classifier with `dropout`."""
    act = {"relu": nn.ReLU, "gelu": nn.GELU, "tanh": nn.Tanh}[activation]
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1),
        act(),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        act(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(2 * width * 16, 10),
    )


Pair = tuple[np.ndarray, np.ndarray]


def datasets(validation_share: float = 0.2) -> tuple[Pair, Pair]:
    """The 1797 digits of scikit-learn; `validation_share` of them are kept for validation."""
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[:, None]
    labels = digits.target.astype(np.int64)
    train_x, valid_x, train_y, valid_y = train_test_split(
        images, labels, test_size=validation_share, random_state=0, stratify=labels
    )
    return (train_x, train_y), (valid_x, valid_y)


def metrics(outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
    """Share of the digits that were recognised."""
    return {"accuracy": (outputs.argmax(1) == targets).float().mean()}
