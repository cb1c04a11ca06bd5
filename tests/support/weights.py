"""The tensors of a PyTorch checkpoint, whole, whatever number of ranks wrote them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any


def read_tensors(checkpoint: Path) -> dict[str, Any]:
    """Name -> torch.Tensor: the weights as `model.*`, the optimizer's state as `optimizer.*`."""
    import torch
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader
    from torch.distributed.checkpoint.state_dict_loader import load

    reader = HuggingFaceStorageReader(str(checkpoint / "tensors"))
    described = reader.read_metadata().state_dict_metadata
    tensors = {
        name: torch.empty(of.size, dtype=of.properties.dtype)  # type: ignore[union-attr]
        for name, of in described.items()
    }
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled, unavailable")
        load(tensors, storage_reader=reader, no_dist=True)
    return tensors


def largest_difference(left: Path, right: Path) -> float:
    """Between two checkpoints of the same model and optimizer, over all tensors."""
    ours, theirs = read_tensors(left), read_tensors(right)
    assert ours.keys() == theirs.keys()
    return max(float((ours[name] - theirs[name]).abs().max()) for name in ours)
