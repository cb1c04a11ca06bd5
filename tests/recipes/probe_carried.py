"""An LSTM that reads eight long texts at once: its state goes on from batch to batch."""

import os
import threading
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DEFAULTS = {"batch_size": 8, "epochs": 4, "learning_rate": 0.05}
TEXTS, PARTS, LENGTH = 8, 5, 6

State = tuple[torch.Tensor, torch.Tensor]


class Network(nn.Module):
    """Guesses the next number; it needs to remember the numbers before this part of a text."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, 8, batch_first=True)
        self.last = nn.Sequential(nn.Dropout(dropout), nn.Linear(8, 1))

    def forward(self, values: torch.Tensor, state: State | None) -> tuple[torch.Tensor, State]:
        outputs, after = self.lstm(values, state)
        return self.last(outputs), after


def model(dropout: float = 0.0) -> nn.Module:
    return Network(dropout)


def datasets() -> tuple[DataLoader[Any], DataLoader[Any]]:
    """Row k of each batch goes on where row k of the batch before has ended."""
    random = torch.Generator().manual_seed(0)
    texts = torch.rand(TEXTS, PARTS * LENGTH + 1, generator=random).cumsum(1).sin()
    parts = texts.unfold(1, LENGTH + 1, LENGTH).transpose(0, 1).reshape(-1, LENGTH + 1, 1)
    data = TensorDataset(parts[:, :-1].contiguous(), parts[:, 1:].contiguous())
    return DataLoader(data, TEXTS), DataLoader(data, TEXTS)


def step(
    model: nn.Module, batch: Any, carried: State | None, hold: bool = False, saved: int = 1
) -> Any:
    """With `hold` the training stands still after `saved` checkpoints."""
    if hold and torch.is_grad_enabled():
        hold_here(saved)
    values, targets = batch
    outputs, state = model(values, carried)
    known = torch.zeros(()) if carried is None else torch.ones(())
    return {"loss": nn.functional.mse_loss(outputs, targets), "known": known}, state


def hold_here(saved: int) -> None:
    """Wait for ever, once the first attempt of the run has `saved` checkpoints."""
    found = list(Path(os.environ["TRAINDECK_RUN_FOLDER"]).glob("checkpoints/step-*[0-9]"))
    if len(found) >= saved and not os.environ.get("TRAINDECK_RESUME"):
        threading.Event().wait()
