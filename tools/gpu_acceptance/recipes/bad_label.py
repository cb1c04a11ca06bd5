"""The digits; at one step a label is out of range, as a wrong file may have it."""

import itertools

import numpy as np
import torch
from torch import nn

from engine.recipes import digits

BAD_STEP = 30

_calls = itertools.count(1)

Pair = tuple[np.ndarray, np.ndarray]


def model() -> nn.Module:
    """That of the digits."""
    return digits.model()


def datasets() -> tuple[Pair, Pair]:
    """The digits."""
    return digits.datasets()


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy; there are ten classes, so a label plus ten is none."""
    return nn.functional.cross_entropy(outputs, targets + 10 * (next(_calls) == BAD_STEP))
