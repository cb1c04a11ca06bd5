"""A tiny GAN: two optimizers, one step for each; 37 points."""

import os
import threading
from pathlib import Path
from typing import Any

import torch
from torch import nn

DEFAULTS = {"batch_size": 8, "epochs": 2, "learning_rate": 0.01}

Batch = tuple[torch.Tensor, torch.Tensor]


class Network(nn.Module):
    """Never called as a whole."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.generator = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 2))
        self.discriminator = nn.Sequential(
            nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Dropout(dropout), nn.Linear(8, 1)
        )


def model(dropout: float = 0.0) -> nn.Module:
    return Network(dropout)


def datasets() -> tuple[Batch]:
    """Points on a circle, each with its noise; there is nothing to validate."""
    random = torch.Generator().manual_seed(0)
    angle = torch.rand(37, 1, generator=random) * 6.28
    pair = torch.cat([angle.sin(), angle.cos()], 1), torch.randn(37, 3, generator=random)
    return (pair,)


def step(
    model: Any, batch: Batch, optimizer: str, hold: bool = False, saved: int = 1
) -> dict[str, Any]:
    """With `hold` the training stands still after `saved` checkpoints."""
    if hold:
        hold_here(saved)
    real, noise = batch
    fake = model.generator(noise)
    if optimizer == "generator":
        return {"loss": judged(model, fake, 1.0)}
    right = judged(model, real, 1.0)
    wrong = judged(model, fake.detach(), 0.0)
    return {"loss": right + wrong, "real": model.discriminator(real).sigmoid().mean()}


def judged(model: Any, points: torch.Tensor, label: float) -> torch.Tensor:
    answers = model.discriminator(points)
    return nn.functional.binary_cross_entropy_with_logits(answers, torch.full_like(answers, label))


def optimizers(model: Any, learning_rate: float) -> dict[str, Any]:
    discriminator = torch.optim.Adam(model.discriminator.parameters(), learning_rate)
    generator = torch.optim.Adam(model.generator.parameters(), learning_rate)
    slower = torch.optim.lr_scheduler.ExponentialLR(generator, 0.5)
    return {
        "discriminator": discriminator,
        "generator": {
            "optimizer": generator,
            "lr_scheduler": {"scheduler": slower, "interval": "epoch"},
        },
    }


def hold_here(saved: int) -> None:
    """Wait for ever, once the first attempt of the run has `saved` checkpoints."""
    found = list(Path(os.environ["TRAINDECK_RUN_FOLDER"]).glob("checkpoints/step-*[0-9]"))
    if len(found) >= saved and not os.environ.get("TRAINDECK_RESUME"):
        threading.Event().wait()
