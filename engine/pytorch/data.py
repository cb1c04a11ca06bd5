"""A recipe's data for PyTorch: any batch of samples by their indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import TensorDataset, default_collate

from engine.sample_order import Indices


class Samples(Protocol):
    """A data set with random access."""

    def __len__(self) -> int:
        """How many samples there are."""

    def batch(self, indices: Indices) -> tuple[Any, Any]:
        """Inputs and targets of the samples with these indices, on the CPU."""


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

    def batch(self, indices: Indices) -> tuple[Any, Any]:
        chosen = torch.from_numpy(np.ascontiguousarray(indices))
        return self._tensors[0][chosen], self._tensors[1][chosen]


class MapSamples:
    """Samples of a map-style Dataset, fetched one by one and collated as a DataLoader does."""

    def __init__(self, dataset: Any) -> None:
        self._dataset = dataset

    def __len__(self) -> int:
        return len(self._dataset)

    def batch(self, indices: Indices) -> tuple[Any, Any]:
        inputs, targets = default_collate([self._dataset[int(index)] for index in indices])
        return inputs, targets


def samples(dataset: Any) -> Samples:
    """What a recipe's `datasets()` gave, as Samples: a pair of arrays or tensors, or a Dataset.

    Raises ValueError with a sentence for anything else, and for an empty data set.
    """
    found: Samples
    if isinstance(dataset, TensorDataset) and len(dataset.tensors) == 2:
        found = TensorSamples(*dataset.tensors)
    elif isinstance(dataset, Sequence) and len(dataset) == 2 and all(map(_is_array, dataset)):
        found = TensorSamples(torch.as_tensor(dataset[0]), torch.as_tensor(dataset[1]))
    elif hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
        found = MapSamples(dataset)
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


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | torch.Tensor)
