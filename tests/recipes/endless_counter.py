"""A fast and long training that writes its step count to a file, and prints in bursts."""

import sys
import time
from pathlib import Path

import torch
from torch import nn

RUN = Path(sys.argv[1])


def model() -> nn.Module:
    return nn.Linear(4, 1)


def datasets() -> tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    inputs = torch.randn(3200, 4, generator=torch.Generator().manual_seed(0))
    return (inputs, inputs.sum(1, keepdim=True)), (inputs[:64], inputs[:64].sum(1, keepdim=True))


steps = 0


def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Squared error. A file `burst` in the run's folder asks for a megabyte of output."""
    global steps
    if torch.is_grad_enabled():
        steps += 1
        time.sleep(0.005)
        (RUN / "counted").write_text(str(steps))
        if steps % 20 == 0 and (RUN / "burst").exists():
            (RUN / "burst").unlink(missing_ok=True)
            print(("burst " * 30 + "\n") * 5800)
    return ((outputs - targets) ** 2).mean()
