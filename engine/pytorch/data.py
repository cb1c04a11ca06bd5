"""The data sets of a PyTorch recipe: batches of samples by sample index."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import TensorDataset

from engine.pytorch.loader import MapSamples
from engine.training.sample_order import Indices

Batch = tuple[Any, Any]
"""Inputs and targets."""

GPU_MEMORY_FRACTION = 0.25
"""A data set that needs less than this fraction of a GPU's free memory is kept there."""


class Samples(Protocol):
    """A data set with random access."""

    def __len__(self) -> int:
        """Return the number of samples."""

    def batches(self, requests: Iterable[Indices], epoch: int) -> Iterator[Batch]:
        """Yield one batch for each array of sample indices, on the CPU or where the data is.

        The random numbers of a data set depend only on the seed, the epoch and the sample.
        """

    def close(self) -> None:
        """End the loader workers."""


class TensorSamples:
    """Samples that are rows of two tensors; a batch is one indexing operation."""

    def __init__(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        if len(inputs) != len(targets):
            raise ValueError(
                f"datasets() gave {len(inputs)} inputs but {len(targets)} targets: "
                "there must be one target per input."
            )
        self._tensors = (inputs, targets)

    def __len__(self) -> int:
        return len(self._tensors[0])

    @property
    def bytes(self) -> int:
        """The memory of the tensors in bytes."""
        return sum(tensor.nbytes for tensor in self._tensors)

    def move(self, device: torch.device) -> None:
        """Move the tensors to `device`, so that no step copies samples."""
        inputs, targets = self._tensors
        self._tensors = inputs.to(device), targets.to(device)

    def batches(self, requests: Iterable[Indices], epoch: int) -> Iterator[Batch]:
        inputs, targets = self._tensors
        for part in requests:
            rows = torch.from_numpy(np.ascontiguousarray(part))
            rows = rows.to(inputs.device, non_blocking=True)
            yield inputs[rows], targets[rows]

    def close(self) -> None:
        return


def as_samples(dataset: Any, *, seed: int, loader_workers: int, device: torch.device) -> Samples:
    """Return one data set of a recipe (a pair of arrays or tensors, or a Dataset) as Samples.

    A pair moves to `device` if that is a GPU with enough free memory. Raises ValueError for any
    other type, and for an empty data set.
    """
    samples: Samples
    if isinstance(dataset, TensorDataset) and len(dataset.tensors) == 2:
        dataset = dataset.tensors
    if (
        isinstance(dataset, Sequence)
        and len(dataset) == 2
        and all(isinstance(part, np.ndarray | torch.Tensor) for part in dataset)
    ):
        inputs, targets = (torch.as_tensor(part) for part in dataset)
        samples = TensorSamples(inputs, targets)
        if device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(device)
            if samples.bytes < GPU_MEMORY_FRACTION * free:
                samples.move(device)
    elif hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
        samples = MapSamples(dataset, seed, loader_workers, pin_memory=device.type == "cuda")
    else:
        raise ValueError(
            f"datasets() gave a {type(dataset).__name__}: each of the two data sets must be a pair "
            "(inputs, targets) of arrays, or a Dataset with a length."
        )
    if len(samples) == 0:
        raise ValueError("datasets() gave an empty data set: at least one sample is needed.")
    return samples


def to_device(batch: Any, device: torch.device) -> Any:
    """Return `batch` with its tensors copied to `device`; tuples, lists and dicts may be nested."""
    match batch:
        case torch.Tensor():
            return batch.to(device, non_blocking=True)
        case dict():
            return {key: to_device(value, device) for key, value in batch.items()}
        case tuple() if hasattr(batch, "_fields"):  # a named tuple
            return type(batch)(*(to_device(value, device) for value in batch))
        case tuple() | list():
            return type(batch)(to_device(value, device) for value in batch)
        case _:
            return batch
