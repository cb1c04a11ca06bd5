"""The data sets of a PyTorch recipe with random access: batches of samples by sample index."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

import numpy as np
import torch
from torch.utils.data import TensorDataset

from engine.pytorch.devices import gpu_module, is_gpu
from engine.pytorch.samples.loader import Fetching, MapSamples
from engine.pytorch.samples.names import Names
from engine.pytorch.samples.nested import Batch, leaves_of, map_parts, take_rows, to_device
from engine.training.sample_order import Indices

__all__ = ["Samples", "TensorSamples", "as_samples", "is_columns", "to_device"]

GPU_MEMORY_FRACTION = 0.25
"""A data set that needs less than this fraction of a GPU's free memory is kept there."""

AHEAD = 64
AHEAD_BYTES = 1 << 20
"""Batches, and their bytes, that are taken of tensors at once: to take each by itself would be a
good part of a small step. Large batches are taken one by one."""

ALIGNMENT = {"cpu": 64, "cuda": 256}
"""Bytes: batches begin where tensors of their own could. The bits of some kernels depend on it."""


class Samples(Protocol):
    """A data set with random access."""

    def __len__(self) -> int:
        """Return the number of samples."""

    def batches(self, requests: Iterable[Indices], epoch: int) -> Iterator[Batch]:
        """Yield one batch for each array of sample indices, on the CPU or where the data is.

        The random numbers of a data set depend only on the seed, the epoch and the sample.
        """

    def one(self, index: int) -> Any:
        """Return a sample as the data set gives it, in this process and in epoch 0."""

    def names(self, indices: Indices) -> Names:
        """Return the names of samples, for sentences."""

    def reading(self, seconds: float) -> list[int]:
        """Return the samples that are read for so many seconds. Any thread may call this."""

    def close(self) -> None:
        """End the loader workers."""


class Columns:
    """Samples that are rows of tensors; a batch is one indexing operation for each of them."""

    def __init__(self, columns: Batch) -> None:
        """`columns`: tensors, arrays and lists in any nesting, all of one length."""
        self._columns = _as_tensors(columns)
        lengths = {name or "data": len(leaf) for name, leaf in _columns_of(self._columns)}
        if len(set(lengths.values())) > 1:
            each = ", ".join(f"{length} in {name}" for name, length in lengths.items())
            raise ValueError(
                f"datasets() gave columns of different lengths ({each}): each needs one entry per "
                "sample."
            )
        self._count = next(iter(lengths.values()), 0)
        self._ahead: deque[Batch] = deque()
        """Batches that were taken already."""

    def __len__(self) -> int:
        return self._count

    @property
    def bytes(self) -> int:
        """The memory of the tensors in bytes."""
        return sum(leaf.nbytes for leaf in self._tensors())

    def move(self, device: torch.device) -> None:
        """Move the tensors to `device`."""
        self._columns = _moved(self._columns, device)
        for _ in range(len(self._ahead)):
            self._ahead.append(_moved(self._ahead.popleft(), device))

    def move_to_gpu(self, device: torch.device) -> None:
        """Move the tensors to a GPU that has enough free memory, so that no step copies samples.

        Call it when the model and all that its steps need have their memory already.
        """
        if self.bytes and is_gpu(device):
            free, _ = gpu_module(device).mem_get_info(device)
            if self.bytes < GPU_MEMORY_FRACTION * free:
                self.move(device)

    def batches(self, requests: Iterable[Indices], epoch: int) -> Iterator[Batch]:
        """See `Samples`."""
        rest = iter(requests)
        for first in rest:
            asked = [first, *islice(rest, self._at_once(len(first)) - 1)]
            if len({len(part) for part in asked[:-1]}) != 1:  # one alone, or of several sizes
                for part in asked:
                    yield take_rows(self._columns, self._rows(part))
                continue
            self._ahead = ready = self._taken(asked)
            while ready:  # nothing here keeps a batch that was given
                yield ready.popleft()

    def one(self, index: int) -> Batch:
        """See `Samples`."""
        return _moved(take_rows(self._columns, slice(index, index + 1)), torch.device("cpu"))

    def names(self, indices: Indices) -> Names:
        """See `Samples`."""
        return Names(None, indices)

    def reading(self, seconds: float) -> list[int]:
        """See `Samples`."""
        return []

    def close(self) -> None:
        """See `Samples`."""
        return

    def _taken(self, asked: list[Indices]) -> deque[Batch]:
        """Return the batches of equal sizes that are asked for; the last one may be smaller."""
        rows = take_rows(self._columns, self._rows(np.concatenate(asked)))
        return deque(_divided(rows, [len(part) for part in asked]))

    def _at_once(self, size: int) -> int:
        """Return how many batches of `size` samples are taken at once."""
        if not _is_divisible(self._columns):
            return 1
        sizes = [size * leaf.nbytes // self._count for leaf in self._tensors()]
        alignments = [ALIGNMENT.get(leaf.device.type, 1) for leaf in self._tensors()]
        if any(each % alignment for each, alignment in zip(sizes, alignments, strict=True)):
            return 1
        return max(1, min(AHEAD, AHEAD_BYTES // max(1, sum(sizes))))

    def _rows(self, indices: Indices) -> torch.Tensor:
        """Return `indices` where the tensors are now."""
        device = next((tensor.device for tensor in self._tensors()), torch.device("cpu"))
        rows: torch.Tensor = to_device(torch.from_numpy(np.ascontiguousarray(indices)), device)
        return rows

    def _tensors(self) -> Iterator[torch.Tensor]:
        return (leaf for _, leaf in leaves_of(self._columns) if isinstance(leaf, torch.Tensor))


class TensorSamples(Columns):
    """Samples that are rows of two tensors, inputs and targets."""

    def __init__(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        if len(inputs) != len(targets):
            raise ValueError(
                f"datasets() gave {len(inputs)} inputs but {len(targets)} targets: "
                "there must be one target per input."
            )
        super().__init__((inputs, targets))


def as_samples(
    dataset: Any,
    *,
    seed: int,
    loader_workers: int,
    device: torch.device,
    fetching: Fetching | None = None,
    count: int | None = None,
) -> Samples:
    """Return one data set of a recipe (arrays or tensors, or a Dataset) as Samples.

    `device` is that of the training. `count`: the samples that a sampler chooses, for a data set
    without a length. Raises ValueError for any other type, and for an empty data set.
    """
    samples: Samples
    if (
        fetching is None
        and isinstance(dataset, TensorDataset)
        and type(dataset).__getitem__ is TensorDataset.__getitem__
    ):
        dataset = dataset.tensors
    if is_columns(dataset) and fetching is None:
        samples = _columns(dataset)
    elif hasattr(dataset, "__getitem__") and (hasattr(dataset, "__len__") or count is not None):
        samples = MapSamples(
            dataset, seed, loader_workers, pin_memory=is_gpu(device), fetching=fetching
        )
    else:
        raise ValueError(
            f"datasets() gave a {type(dataset).__name__}: a data set is a pair (inputs, targets) "
            "of arrays, a dictionary of arrays, a Dataset with a length, a DataLoader, or a stream."
        )
    if (len(samples) if count is None else count) == 0:
        raise ValueError("datasets() gave an empty data set: at least one sample is needed.")
    return samples


def is_columns(dataset: Any) -> bool:
    """Whether `dataset` has a sample in each row: an array, a tuple or a dictionary of them.

    A list of two arrays is one; a longer list has one sample in each entry.
    """
    if isinstance(dataset, np.ndarray | torch.Tensor):
        return True
    if isinstance(dataset, list):
        return len(dataset) == 2 and all(map(_is_array, dataset))
    if isinstance(dataset, tuple):
        return bool(dataset) and all(map(is_columns, dataset))
    if type(dataset) is dict:
        return bool(dataset) and all(
            is_columns(value) or isinstance(value, list) for value in dataset.values()
        )
    return False


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray | torch.Tensor)


def _columns(dataset: Any) -> Columns:
    if isinstance(dataset, tuple | list) and len(dataset) == 2 and all(map(_is_array, dataset)):
        inputs, targets = (torch.as_tensor(part) for part in dataset)
        return TensorSamples(inputs, targets)
    return Columns(dataset)


def _moved(columns: Batch, device: torch.device) -> Batch:
    if isinstance(columns, torch.Tensor):
        return columns.to(device)
    return map_parts(columns, lambda part: _moved(part, device))


def _is_divisible(columns: Batch) -> bool:
    if isinstance(columns, torch.Tensor):
        return columns.layout is torch.strided
    parts = columns.values() if type(columns) is dict else columns
    return type(columns) in (dict, tuple) and all(map(_is_divisible, parts))


def _divided(rows: Batch, sizes: list[int]) -> Sequence[Batch]:
    """Return batches of `sizes`, one after the other, of `rows` that `_is_divisible`.

    Each has a part of the memory of `rows`, and yet may be changed in place like any tensor.
    """
    if isinstance(rows, torch.Tensor):
        return torch.unsafe_split_with_sizes(rows, sizes)
    if isinstance(rows, tuple):
        return list(zip(*(_divided(part, sizes) for part in rows), strict=True))
    parts = zip(*(_divided(part, sizes) for part in rows.values()), strict=True)
    return [dict(zip(rows, part, strict=True)) for part in parts]


def _as_tensors(columns: Batch) -> Batch:
    """Return `columns` with tensors in the place of arrays; texts and other objects stay a list."""
    match columns:
        case torch.Tensor():
            return columns
        case np.ndarray() if columns.dtype.kind in "OUSM":
            return list(columns)
        case np.ndarray():
            return torch.as_tensor(columns)
        case list():
            try:
                return torch.as_tensor(columns)
            except (TypeError, ValueError):
                return columns
    return map_parts(columns, _as_tensors)


def _columns_of(columns: Batch) -> Iterator[tuple[str, Any]]:
    if isinstance(columns, torch.Tensor | list):
        yield "", columns
    elif isinstance(columns, Mapping):
        for key, value in columns.items():
            yield from ((f"[{key!r}]{name}", leaf) for name, leaf in _columns_of(value))
    else:
        for number, value in enumerate(columns):
            yield from ((f"[{number}]{name}", leaf) for name, leaf in _columns_of(value))
