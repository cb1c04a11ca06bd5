"""A recipe's data for PyTorch: batches of samples, in the order in which they are asked for."""

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

LARGEST_SHARE = 0.25
"""Of the free memory of a GPU: a data set that needs less is kept there."""


class Samples(Protocol):
    """A data set with random access."""

    def __len__(self) -> int:
        """How many samples there are."""

    def batches(self, parts: Iterable[Indices], epoch: int) -> Iterator[Batch]:
        """For each part the samples with these indices, on the CPU or on the data's device.

        Whatever a data set draws at random depends on the epoch and the sample alone.
        """

    def close(self) -> None:
        """End the processes that fetch samples, if there are any."""


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
        """Memory that the tensors take."""
        return sum(tensor.nbytes for tensor in self._tensors)

    def move(self, device: torch.device) -> None:
        """Keep the tensors on `device`: no copy of samples per step."""
        inputs, targets = self._tensors
        self._tensors = inputs.to(device), targets.to(device)

    def batches(self, parts: Iterable[Indices], epoch: int) -> Iterator[Batch]:
        inputs, targets = self._tensors
        for part in parts:
            chosen = torch.from_numpy(np.ascontiguousarray(part))
            chosen = chosen.to(inputs.device, non_blocking=True)
            yield inputs[chosen], targets[chosen]

    def close(self) -> None:
        return


def samples(dataset: Any, *, seed: int, loader_workers: int, device: torch.device) -> Samples:
    """What a recipe's `datasets()` gave, as Samples: a pair of arrays or tensors, or a Dataset.

    Tensors are kept on `device` when they fit. Raises ValueError with a sentence for anything
    else, and for an empty data set.
    """
    found: Samples
    if isinstance(dataset, TensorDataset) and len(dataset.tensors) == 2:
        found = _on_device(TensorSamples(*dataset.tensors), device)
    elif isinstance(dataset, Sequence) and len(dataset) == 2 and all(map(_is_array, dataset)):
        inputs, targets = (torch.as_tensor(part) for part in dataset)
        found = _on_device(TensorSamples(inputs, targets), device)
    elif hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
        found = MapSamples(dataset, seed, loader_workers, pin_memory=device.type == "cuda")
    else:
        raise ValueError(
            f"datasets() gave a {type(dataset).__name__}: each of the two data sets must be a pair "
            "(inputs, targets) of arrays, or a Dataset with a length."
        )
    if len(found) == 0:
        raise ValueError("datasets() gave an empty data set: at least one sample is needed.")
    return found


def to_device(batch: Any, device: torch.device) -> Any:
    """A batch, or any nesting of tuples, lists and dictionaries of tensors, on `device`."""
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


def _on_device(found: TensorSamples, device: torch.device) -> TensorSamples:
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        if found.bytes < LARGEST_SHARE * free:
            found.move(device)
    return found


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | torch.Tensor)
