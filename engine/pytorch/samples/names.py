"""The names of samples and batches in sentences: their index, file, and shape."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from engine.pytorch.samples.nested import leaves_of
from engine.training.errors import TrainingFailed
from engine.training.sample_order import Indices

_FILE_LISTS = ("samples", "imgs", "image_paths", "img_paths", "paths", "files", "filenames")
"""Attributes of a data set that hold a file for each sample: those of torchvision, and customs."""


MOST_PARTS = 6
"""Parts of a batch that a note names."""


class SamplesDiffer(TrainingFailed):
    """Samples that cannot form one batch; the text names two of them."""

    def __init__(self, text: str) -> None:
        # A loader process sends the text with the traceback around it.
        super().__init__(text.rpartition(f"{SamplesDiffer.__name__}: ")[2].strip())


class Names(NamedTuple):
    """The names of the rows of one batch."""

    dataset: Any
    indices: Indices

    def of(self, row: int) -> str:
        """Return the name of a row: `sample 17 (/data/17.png)`."""
        return sample_name(self.dataset, self.indices[row]) if row < len(self.indices) else ""


def sample_name(dataset: Any, index: Any) -> str:
    """Return `sample 17`, with its file in parentheses if the data set tells it."""
    file = file_of(dataset, index)
    return f"sample {index} ({file})" if file else f"sample {index}"


def file_of(dataset: Any, index: Any) -> str:
    """Return the file of a sample, also through subsets and concatenations; empty: unknown.

    Raises nothing: it is called when something else has failed.
    """
    try:
        return _file_of(dataset, index)
    except Exception:  # an attribute of the user's class may do anything
        return ""


def _file_of(dataset: Any, index: Any) -> str:
    for _ in range(100):  # data sets may wrap each other
        for attribute in _FILE_LISTS:
            if file := _file_in(getattr(dataset, attribute, None), index):
                return file
        if hasattr(dataset, "cumulative_sizes") and hasattr(dataset, "datasets"):
            part = bisect_right(dataset.cumulative_sizes, index)
            index -= dataset.cumulative_sizes[part - 1] if part else 0
            dataset = dataset.datasets[part]
        elif hasattr(dataset, "dataset"):
            indices = getattr(dataset, "indices", None)
            dataset, index = dataset.dataset, index if indices is None else indices[index]
        else:
            break
    return ""


def _file_in(files: Any, index: Any) -> str:
    if isinstance(files, str | bytes) or not hasattr(files, "__getitem__"):
        return ""
    entry = files[index]
    if isinstance(entry, tuple | list) and entry:
        entry = entry[0]
    return str(entry) if isinstance(entry, str | PathLike) else ""


def place_of(dataset: Any, owns: Callable[[Path], bool]) -> str:
    """Return file and line of the user's code that makes the samples of `dataset`; empty: none."""
    for _ in range(100):
        code = getattr(getattr(type(dataset), "__getitem__", None), "__code__", None)
        if code is not None and owns(Path(code.co_filename)):
            return f"{code.co_filename}:{code.co_firstlineno}"
        if not hasattr(dataset, "dataset"):
            break
        dataset = dataset.dataset
    return ""


def difference(samples: Sequence[Any], dataset: Any, indices: Sequence[Any]) -> str:
    """Return in which part two `samples` differ so that they form no batch; empty: in none."""
    for sample, index in zip(samples, indices, strict=False):
        if sample is None:
            return (
                f"The data set gave None for {sample_name(dataset, index)}: leave such samples out "
                "of it, or give a DataLoader with a collate_fn that does."
            )
    first = dict(leaves_of(samples[0]))
    for sample, index in zip(samples[1:], indices[1:], strict=False):
        leaves = dict(leaves_of(sample))
        for part in dict.fromkeys((*first, *leaves)):
            ours, theirs = (
                _shape(found[part]) if part in found else "is missing" for found in (first, leaves)
            )
            if ours != theirs:
                return (
                    f"{f'The part {part}' if part else 'The value'} of "
                    f"{sample_name(dataset, indices[0])} {ours}, and of "
                    f"{sample_name(dataset, index)} it {theirs}: they cannot form one batch. Give "
                    "all samples one shape in the data set, or give a DataLoader with a collate_fn "
                    "that pads them."
                )
    return ""


class FailedBatch(NamedTuple):
    """The batch with which an exception was raised."""

    batch: Any
    of: str
    """`the epoch`, or other data."""

    names: Names | None


def failed_batch(error: BaseException) -> FailedBatch | None:
    """Return the batch in whose context an exception, or one of its causes, was raised."""
    found = (getattr(each, _BATCH, None) for each in chain_of(error))
    return next((each for each in found if isinstance(each, FailedBatch)), None)


def chain_of(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and what has led to it."""
    for _ in range(100):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


_BATCH = "traindeck_batch"
"""The attribute of an exception: it lives as long as the frames, which hold the batch too."""


class NamesBatch:
    """In its context, an exception gets a note that names the batch and the shapes in it.

    A class, since it is entered in each step. The text of a TrainingFailed is complete as it is.
    """

    __slots__ = ("_batch", "_names", "_number", "_of")

    def __init__(self, number: int, of: str, batch: Any, names: Names | None = None) -> None:
        """`batch` is the one with `number`, from 0, of an epoch or of data: `the epoch`."""
        self._number, self._of, self._batch, self._names = number, of, batch, names

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: object
    ) -> None:
        if not isinstance(error, Exception):
            return
        with suppress(AttributeError):  # a class of the user's with slots
            setattr(error, _BATCH, FailedBatch(self._batch, self._of, self._names))
        if isinstance(error, TrainingFailed):
            return
        parts = [f"{name or 'it'} {_shape(value)}" for name, value in leaves_of(self._batch)]
        more = f" and {len(parts) - MOST_PARTS} more" if len(parts) > MOST_PARTS else ""
        named = ", ".join(parts[:MOST_PARTS])
        error.add_note(f"In batch {self._number + 1} of {self._of}: {named}{more}.")


def _shape(value: Any) -> str:
    if isinstance(value, torch.Tensor | np.ndarray):
        return f"has the shape {' × '.join(map(str, value.shape)) or '()'}"
    return "is a number" if isinstance(value, int | float) else f"is a {type(value).__name__}"
