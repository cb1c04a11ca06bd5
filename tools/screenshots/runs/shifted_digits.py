"""The digits, shifted at random, so that there is more to learn: the runs of the pictures."""

import itertools

import numpy as np
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

DEFAULTS = {"epochs": 60, "batch_size": 64, "learning_rate": 0.003}

SAY_EVERY = 150
"""Batches from one line in the log to the next."""

_batches = itertools.count(1)


class Shift(nn.Module):
    """Moves a training batch by up to `most` pixels along each axis."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Roll the images; in evaluation leave them as they are."""
        if not self.training or not self.most:
            return images
        by = torch.randint(-self.most, self.most + 1, (2,)).tolist()
        return images.roll(by, dims=(2, 3))


def model(width: int = 32, dropout: float = 0.1, shift: int = 1) -> nn.Module:
    """Two convolutions of `width` and 2 x `width` channels behind shifts by `shift` pixels."""
    return nn.Sequential(
        Shift(shift),
        nn.Conv2d(1, width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, 2 * width, 3, padding=1),
        nn.ReLU(),
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


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross entropy; now and then it says which digit was the hardest."""
    each = nn.functional.cross_entropy(outputs, targets, reduction="none")
    batch = next(_batches)
    if batch % SAY_EVERY == 0:
        worst = int(each.argmax())
        right, taken = int(targets[worst]), int(outputs[worst].argmax())
        what = f"a {right} taken for a {taken}" if taken != right else f"a {right}, still right"
        print(f"batch {batch}: the hardest of {len(targets)} digits is {what}")
    return each.mean()


def metrics(outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
    """Share of the digits that were recognised."""
    return {"accuracy": (outputs.argmax(1) == targets).float().mean()}
