"""A small network for comparing strategies; 97 samples: uneven batches."""

import os
import threading
from pathlib import Path

import numpy as np
import torch
from torch import nn

Pair = tuple[np.ndarray, np.ndarray]


def model(width: int = 24, dropout: float = 0.0) -> nn.Module:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, width), nn.Tanh(), nn.Dropout(dropout), nn.Linear(width, 10)
    )


def datasets() -> tuple[Pair, Pair]:
    """Noisy pictures of ten patterns."""
    random = np.random.RandomState(0)
    labels = np.arange(130) % 10
    patterns = random.randn(10, 8, 8)
    images = (patterns[labels] + random.randn(130, 8, 8)).astype(np.float32)
    return (images[:97], labels[:97]), (images[97:], labels[97:])


def loss(
    outputs: torch.Tensor, targets: torch.Tensor, hold: bool = False, saved: int = 1
) -> torch.Tensor:
    """Cross-entropy. With `hold` the training stands still after `saved` checkpoints."""
    if hold and torch.is_grad_enabled():
        hold_here(saved)
    return nn.functional.cross_entropy(outputs, targets)


def metrics(outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
    """The mean of every output: together they identify the trained function."""
    return {f"output_{k}": outputs[:, k].mean() for k in range(outputs.shape[1])}


def optimizer(parameters: list[nn.Parameter], learning_rate: float) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, learning_rate, momentum=0.9)


def hold_here(saved: int) -> None:
    """Wait for ever, once the first attempt of the run has `saved` checkpoints."""
    found = list(Path(os.environ["TRAINDECK_RUN_FOLDER"]).glob("checkpoints/step-*[0-9]"))
    if len(found) >= saved and not os.environ.get("TRAINDECK_RESUME"):
        threading.Event().wait()
