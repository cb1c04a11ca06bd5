"""What a PyTorch checkpoint holds: model and optimizer once, random state for every rank."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

WEIGHTS = "model.pt"
OPTIMIZER = "optimizer.pt"


def save(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer, rank: int) -> None:
    """Write this rank's share; rank 0 also writes model and optimizer, alike on all ranks."""
    if rank == 0:
        torch.save(model.state_dict(), folder / WEIGHTS)
        torch.save(optimizer.state_dict(), folder / OPTIMIZER)
    torch.save(_random_state(), folder / f"rank{rank}.pt")


def restore(
    folder: Path,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    rank: int,
    device: torch.device,
) -> None:
    """Take back what `save` wrote. A rank that was not there then keeps its fresh random state.

    Code in a checkpoint is never run. Raises RuntimeError when model or optimizer do not fit.
    """
    model.load_state_dict(torch.load(folder / WEIGHTS, map_location=device, weights_only=True))
    optimizer.load_state_dict(
        torch.load(folder / OPTIMIZER, map_location=device, weights_only=True)
    )
    own = folder / f"rank{rank}.pt"
    if own.exists():
        _set_random_state(torch.load(own, map_location="cpu", weights_only=True))


def _random_state() -> dict[str, Any]:
    version, python_state, gauss = random.getstate()
    numpy_state: tuple[Any, ...] = np.random.get_state(legacy=True)  # type: ignore[assignment]
    name, keys, position, has_gauss, cached = numpy_state
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
        "python": [version, list(python_state), gauss],
        "numpy": [name, torch.from_numpy(keys.astype(np.int64)), position, has_gauss, cached],
    }


def _set_random_state(state: dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    if state["cuda"] is not None and torch.cuda.is_available():
        torch.cuda.set_rng_state(state["cuda"])
    version, python_state, gauss = state["python"]
    random.setstate((version, tuple(python_state), gauss))
    name, keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state((name, keys.numpy().astype(np.uint32), position, has_gauss, cached))
