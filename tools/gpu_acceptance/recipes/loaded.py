"""The digits as a Dataset, which loader workers read sample by sample."""

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset

from engine.recipes import digits


class Rows(Dataset[tuple[torch.Tensor, int]]):
    """Arrays, one row at a time."""

    def __init__(self, inputs: np.ndarray, targets: np.ndarray) -> None:
        self.inputs, self.targets = inputs, targets

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return torch.as_tensor(self.inputs[index]), int(self.targets[index])


def model(dropout: float = 0.1) -> nn.Module:
    """That of the digits."""
    return digits.model(dropout=dropout)


def datasets() -> tuple[Rows, Rows]:
    """The digits."""
    train, validation = digits.datasets()
    return Rows(*train), Rows(*validation)
