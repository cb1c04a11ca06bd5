"""Handwritten digits, 8 x 8 pixels, with a small convolutional network: seconds on a CPU."""

from pathlib import Path
from typing import Literal

import numpy as np
import torch
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


FILE = Path(__file__).with_name("digits.npz")
Pair = tuple[np.ndarray, np.ndarray]


def datasets(validation_share: float = 0.2) -> tuple[Pair, Pair]:
    """All 1797 digits; `validation_share` of them, as many of each, are kept for validation."""
    digits = np.load(FILE)
    images = (digits["images"] / 16).astype(np.float32)[:, None]
    labels = digits["labels"].astype(np.int64)
    order = np.random.RandomState(0).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]  # by digit, in any order of each
    kept = np.linspace(0, len(order) - 1, round(validation_share * len(order))).astype(int)
    valid, train = order[kept], np.delete(order, kept)
    return (images[train], labels[train]), (images[valid], labels[valid])


def metrics(outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
    """Share of the digits that were recognised."""
    return {"accuracy": (outputs.argmax(1) == targets).float().mean()}
