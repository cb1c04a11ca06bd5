"""A small language model with tied weights and all that a recipe's step may have; 37 sequences."""

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

DEFAULTS = {"batch_size": 8, "epochs": 2, "learning_rate": 0.02}
TOKENS, LENGTH, IGNORED = 11, 6, -100

Batch = tuple[torch.Tensor, torch.Tensor]


class Network(nn.Module):
    """Its last layer is its embedding."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, 8)
        self.body = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Dropout(dropout))
        self.head = nn.Linear(8, TOKENS, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.head(self.body(self.embedding(tokens)))
        return outputs


def model(dropout: float = 0.0) -> nn.Module:
    return Network(dropout)


def datasets() -> tuple[Batch, Batch]:
    """The next token of a sequence that counts; up to all but one target of it are left out."""
    random = torch.Generator().manual_seed(0)
    begin = torch.randint(0, TOKENS, (48, 1), generator=random)
    tokens = (begin + torch.arange(LENGTH + 1)) % TOKENS
    targets = tokens[:, 1:].clone()
    lengths = torch.randint(1, LENGTH + 1, (48, 1), generator=random)
    targets[torch.arange(LENGTH) >= lengths] = IGNORED
    return (tokens[:37, :-1], targets[:37]), (tokens[37:, :-1], targets[37:])


def weight(batch: Batch) -> int:
    return int((batch[1] != IGNORED).sum())


def step(model: nn.Module, batch: Batch, hold: bool = False, saved: int = 1) -> dict[str, Any]:
    """With `hold` the training stands still after `saved` checkpoints."""
    if hold and torch.is_grad_enabled():
        hold_here(saved)
    tokens, targets = batch
    outputs = model(tokens)
    kept = targets != IGNORED
    right = (outputs.argmax(-1) == targets)[kept]
    return {
        "loss": nn.functional.cross_entropy(outputs[kept], targets[kept]),
        "right": right.float().mean(),
    }


def validate(model: nn.Module, batch: Batch) -> dict[str, Any]:
    values = step(model, batch)
    return {"loss": values["loss"], "accuracy": values["right"]}


def optimizer(named_parameters: Any, learning_rate: float, total_steps: int) -> Any:
    """Decay of matrices only, and a learning rate that changes at every step."""
    decayed = [p for _, p in named_parameters if p.ndim > 1]
    others = [p for _, p in named_parameters if p.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    made = torch.optim.AdamW(groups, learning_rate)
    rate = torch.optim.lr_scheduler.OneCycleLR(made, learning_rate, total_steps)
    return made, rate


def ema(model: nn.Module) -> AveragedModel:
    function: Any = get_ema_multi_avg_fn
    return AveragedModel(model, multi_avg_fn=function(0.7))


def on_epoch(model: nn.Module, epoch: int, metrics: Mapping[str, float], patience: int = 0) -> str:
    if patience and epoch >= patience:
        return f"accuracy {metrics['validation/accuracy']:.3f}"
    return ""


def hold_here(saved: int) -> None:
    """Wait for ever, once the first attempt of the run has `saved` checkpoints."""
    found = list(Path(os.environ["TRAINDECK_RUN_FOLDER"]).glob("checkpoints/step-*[0-9]"))
    if len(found) >= saved and not os.environ.get("TRAINDECK_RESUME"):
        threading.Event().wait()
