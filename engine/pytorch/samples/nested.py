"""Nested batches: tensors in tuples, dictionaries and objects, of any depth."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from engine.pytorch.devices import is_gpu
from engine.training.errors import TrainingFailed

Batch = Any
"""Tensors and other values, in any nesting of tuples, lists, mappings and data classes."""


class UnusableBatch(TrainingFailed):
    """A batch that the functions of the recipe cannot take; the text says what to change."""


def to_device(batch: Batch, device: torch.device) -> Batch:
    """Return `batch` with its tensors copied to `device`, in any nesting.

    The host does not wait for a copy to a GPU: tensors go there by way of pinned memory. An object
    that has a method `to`, such as a packed sequence or the batch of a library, is asked to move
    itself.
    """
    if isinstance(batch, torch.Tensor):
        if batch.device == device:
            return batch
        if is_gpu(device) and batch.is_cpu and _can_be_pinned(batch):
            batch = batch.pin_memory()  # a tensor that is pinned already stays what it is
        return batch.to(device, non_blocking=True)
    if type(batch) is tuple:
        return tuple([to_device(part, device) for part in batch])
    if callable(getattr(batch, "to", None)):
        return batch.to(device)
    return map_parts(batch, lambda value: to_device(value, device))


def _can_be_pinned(tensor: torch.Tensor) -> bool:
    return tensor.layout is torch.strided and not tensor.requires_grad


def map_parts(batch: Batch, function: Callable[[Any], Any]) -> Batch:
    """Return a copy of `batch` with `function` applied to each part; a leaf is returned as it is.

    Types are kept: named tuples, mappings and data classes stay what they are.
    """
    match batch:
        case tuple() if hasattr(batch, "_fields"):  # a named tuple
            return type(batch)(*map(function, batch))
        case tuple() | list():
            return type(batch)(map(function, batch))
        case dict() if type(batch) is dict:
            return {key: function(value) for key, value in batch.items()}
        case Mapping():
            changed: Any = copy.copy(batch)
            for key, value in batch.items():
                changed[key] = function(value)
            return changed
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        changed = copy.copy(batch)
        for field in dataclasses.fields(batch):
            # Also of a frozen data class: the copy is ours, and nothing else has seen it.
            object.__setattr__(changed, field.name, function(getattr(batch, field.name)))
        return changed
    return batch


def parts_of(batch: Batch) -> Iterator[tuple[str, Any]]:
    """Yield the parts of `batch` with their names, such as `["labels"]` or `[0]`; none: a leaf."""
    if isinstance(batch, Mapping):
        for key, value in batch.items():
            yield f"[{key!r}]", value
    elif isinstance(batch, tuple) and hasattr(batch, "_fields"):
        for name, value in zip(batch._fields, batch, strict=True):
            yield f".{name}", value
    elif isinstance(batch, tuple | list):
        for number, value in enumerate(batch):
            yield f"[{number}]", value
    elif dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        for field in dataclasses.fields(batch):
            yield f".{field.name}", getattr(batch, field.name)


def leaves_of(batch: Batch, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the leaves of `batch` with their names: `["image"]`, `[1].mask`; empty: `batch`."""
    is_leaf = True
    for part, value in parts_of(batch):
        is_leaf = False
        yield from leaves_of(value, name + part)
    if is_leaf and not isinstance(batch, tuple | list | Mapping):
        yield name, batch


def first_not_finite(batch: Batch) -> tuple[str, int] | None:
    """Return name and row of the first leaf with a NaN or an infinity; None: all are finite.

    The row is the index in the first dimension. A leaf on a device is waited for.
    """
    for name, leaf in leaves_of(batch):
        values = torch.as_tensor(leaf) if isinstance(leaf, np.ndarray | float) else leaf
        if not isinstance(values, torch.Tensor):
            continue
        if not (values.is_floating_point() or values.is_complex()):
            continue
        bad = ~torch.isfinite(values)
        if bool(bad.any()):
            rows = bad.reshape(len(bad), -1).any(1) if bad.ndim else bad.reshape(1)
            return name, int(rows.nonzero()[0])
    return None


def rows_of(batch: Batch) -> int | None:
    """Return the length of the first dimension that all tensors of `batch` share.

    None: they have several lengths, one has no dimension, or there is no tensor.
    """
    lengths = {
        len(leaf) if leaf.ndim else None
        for _, leaf in leaves_of(batch)
        if isinstance(leaf, torch.Tensor | np.ndarray)
    }
    return lengths.pop() if len(lengths) == 1 else None


def take_rows(batch: Batch, rows: Any) -> Batch:
    """Return `batch` with only `rows` of its tensors, arrays, and lists of leaves such as texts."""
    if isinstance(batch, torch.Tensor | np.ndarray):
        return batch[rows]
    if isinstance(batch, list) and not any(is_array(leaf) for _, leaf in leaves_of(batch)):
        return batch[rows] if isinstance(rows, slice) else [batch[int(row)] for row in rows]
    return map_parts(batch, lambda part: take_rows(part, rows))


def is_array(value: Any) -> bool:
    """Whether `value` is a tensor or an array with at least one dimension."""
    return isinstance(value, torch.Tensor | np.ndarray) and value.ndim > 0


def inputs_and_targets(batch: Batch, *, has_own_loss: bool) -> tuple[Any, Any]:
    """Return the two parts of `batch` for a recipe with `loss(outputs, targets)`.

    A dictionary is split where it has the keys `inputs` and `targets`; any other is the inputs
    alone (targets: None) if the recipe has its own loss. Raises UnusableBatch.
    """
    if isinstance(batch, (tuple, list)):
        if len(batch) == 2:
            return batch[0], batch[1]
        raise UnusableBatch(
            f"Each sample of datasets() has {len(batch)} item{'s' if len(batch) != 1 else ''}: the "
            "model takes the inputs and loss() takes the targets, so there must be two. Write a "
            "sample as ((a, b), targets), or define step(model, batch) in the recipe, which gets "
            "the whole batch."
        )
    if isinstance(batch, Mapping):
        if set(batch) == {"inputs", "targets"}:
            return batch["inputs"], batch["targets"]
        if has_own_loss:
            return batch, None
        keys = ", ".join(map(str, batch))
        raise UnusableBatch(
            f"A batch of datasets() is a dictionary with the keys {keys}: the default loss cannot "
            "know which of them are the targets. Define step(model, batch) in the recipe, or give "
            "samples (inputs, targets)."
        )
    raise UnusableBatch(
        f"Each sample of datasets() is a single {_kind(batch)} without targets: define "
        "step(model, batch) in the recipe, or give samples (inputs, targets)."
    )


def _kind(value: Any) -> str:
    return "tensor" if isinstance(value, torch.Tensor) else type(value).__name__
