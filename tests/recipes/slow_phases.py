"""A small training that is slow in the phase that TEST_DWELL names, and marks that phase."""

import os
import time
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import TensorDataset

from engine.runs.checkpoints import checkpoint_files

RUN = Path(os.environ["TRAINDECK_RUN_FOLDER"])
DWELL = os.environ.get("TEST_DWELL", "")


def dwell(phase: str, seconds: float) -> None:
    """If `moment` is the phase of TEST_DWELL, write a file for it and sleep."""
    if phase == DWELL:
        (RUN / f"in-{phase}").touch()
        time.sleep(seconds)


def model() -> nn.Module:
    return nn.Linear(4, 1)


def datasets() -> tuple[TensorDataset, TensorDataset]:
    """640 samples to train on, 64 to validate with."""
    inputs = torch.randn(704, 4, generator=torch.Generator().manual_seed(0))
    targets = inputs.sum(1, keepdim=True)
    return TensorDataset(inputs[:640], targets[:640]), TensorDataset(inputs[640:], targets[640:])


first_step = True


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the squared error. The first step is as slow as a compiled one."""
    global first_step
    if torch.is_grad_enabled():
        if first_step:
            dwell("first-step", 1.5)
        first_step = False
        time.sleep(0.002)
    return ((outputs - targets) ** 2).mean()


def metrics(outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
    """The mean absolute error, computed slowly if TEST_DWELL is `validation`."""
    dwell("validation", 0.5)
    return {"error": (outputs - targets).abs().mean()}


publish = checkpoint_files.publish


def publish_slowly(*arguments: object, **named: object) -> object:
    """Publish a checkpoint; everything but its manifest is written already."""
    dwell("checkpoint", 1.5)
    return publish(*arguments, **named)  # type: ignore[arg-type]


checkpoint_files.publish = publish_slowly  # type: ignore[assignment]
