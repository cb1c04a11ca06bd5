"""The data sets of a Keras recipe: what `datasets()` gave, and arrays read by sample index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf

from engine.tf.graph import HOST

Batch = Any
"""Tensors with the samples first, nested as the recipe gives them: (inputs, targets), with the
weight of each sample as the third item, or anything else for a recipe with `step(model, batch)`."""


class ArraySamples:
    """Samples that are rows of tensors in the host's memory."""

    def __init__(self, dataset: Any, *, as_fit: bool = False) -> None:
        """`dataset` is (inputs, targets), with sample weights or not, or a dictionary of arrays.

        Inputs and targets are arrays, or tuples, lists and dictionaries of arrays. With `as_fit`
        float64 becomes Keras' float type, as in Keras' `fit`. Raises ValueError if it is something
        else.
        """
        nested = _arrays(dataset)
        if as_fit:
            nested = tf.nest.map_structure(_in_float_type, nested)
        flat = tf.nest.flatten(nested)
        if len({len(array) for array in flat}) > 1:
            raise ValueError(_lengths(nested, flat))
        if len(flat[0]) == 0:
            raise ValueError("datasets() gave an empty data set: at least one sample is needed.")
        with tf.device(HOST):
            self._tensors = tf.nest.map_structure(tf.constant, nested)
        self._length = len(flat[0])

    def __len__(self) -> int:
        return self._length

    @property
    def sample(self) -> Batch:
        """A batch of one sample."""
        return self.batch(tf.constant([0]))

    def batch(self, indices: tf.Tensor) -> Batch:
        """Return the samples with these indices, int64 of shape (samples,)."""
        return rows_on_host(self._tensors, indices)


class DataSets(NamedTuple):
    """What `datasets()` gave."""

    train: Any
    validation: Mapping[str, Any]
    """By name; the first one's metrics have no prefix. Empty: there is no validation."""


def rows(batch: Batch, indices: tf.Tensor) -> Batch:
    """Return the samples of `batch` with these indices."""
    return tf.nest.map_structure(lambda tensor: tf.gather(tensor, indices), batch)


def rows_on_host(batch: Batch, indices: tf.Tensor) -> Batch:
    """Return the samples of `batch` with these indices; only they are copied to a GPU."""
    with tf.device(HOST):
        return rows(batch, indices)


def samples_in(batch: Batch) -> tf.Tensor:
    """Return the number of samples of a batch: an int32 scalar."""
    return tf.shape(tf.nest.flatten(batch)[0])[0]


def data_sets(given: Any) -> DataSets:
    """Return the data sets in the result of a recipe's `datasets()`.

    Raises ValueError when it is not two data sets: (train, validation), where validation may be
    None or a dictionary of several, or {"train": ..., "validation": ...}.
    """
    if isinstance(given, Mapping) and "train" in given:
        named = dict(given)
        train = named.pop("train")
        return DataSets(train, {k: v for k, v in named.items() if v is not None})
    if is_stream(given):
        return DataSets(given, {})
    try:
        train, validation = given
        if isinstance(given, Mapping):
            raise TypeError
    except (TypeError, ValueError):
        raise ValueError(
            f"datasets() gave a {type(given).__name__} that is not two data sets: "
            "it must give (train, validation), or (train, None) without validation."
        ) from None
    if isinstance(train, np.ndarray) and isinstance(validation, np.ndarray):
        raise ValueError(
            "datasets() gave two arrays, which is not two data sets: give "
            "((inputs, targets), None), or ((train_inputs,), (validation_inputs,))."
        )
    if validation is None:
        return DataSets(train, {})
    # A dictionary of data sets; one of arrays is a data set whose batches are dictionaries.
    if isinstance(validation, Mapping) and all(
        is_stream(value) or isinstance(value, tuple) for value in validation.values()
    ):
        return DataSets(train, dict(validation))
    return DataSets(train, {"validation": validation})


def is_stream(dataset: Any) -> bool:
    """Return whether `dataset` gives batches in its own order: tf.data, or batches of Keras."""
    return isinstance(dataset, tf.data.Dataset) or (
        hasattr(dataset, "__getitem__")
        and hasattr(dataset, "__len__")
        and not isinstance(dataset, Mapping | list | tuple | str | bytes | np.ndarray | tf.Tensor)
    )


def _arrays(dataset: Any) -> Any:
    """Return the arrays in `dataset`, nested in tuples and dictionaries."""
    if isinstance(dataset, Mapping):
        if not dataset:
            raise _not_a_pair(dataset)
        return {name: _array_or_nested(part, None, dataset) for name, part in dataset.items()}
    try:
        parts = list(dataset)
    except TypeError:
        raise _not_a_pair(dataset) from None
    if isinstance(dataset, str | np.ndarray | tf.Tensor) or not 1 <= len(parts) <= 3:
        raise _not_a_pair(dataset)
    targets: Any = parts[1] if len(parts) > 1 else None
    length = len(targets) if hasattr(targets, "__len__") else None
    return tuple(_array_or_nested(part, length, dataset) for part in parts if part is not None)


def _array_or_nested(part: Any, length: int | None, dataset: Any) -> Any:
    """Return `part` as an array, or as a dictionary or tuple of arrays.

    A list of arrays is one array per input, unless it has the `length` of the data set.
    """
    if isinstance(part, Mapping) and part:
        return {name: _array_or_nested(value, length, dataset) for name, value in part.items()}
    several = isinstance(part, tuple | list) and bool(part)
    if several and all(isinstance(value, np.ndarray | tf.Tensor) for value in part):
        shapes = {len(value) for value in part if value.ndim}
        if isinstance(part, tuple) or (len(part) != length and len(shapes) == 1):
            return tuple(_array_or_nested(value, length, dataset) for value in part)
    try:
        array = np.asarray(part)
    except (TypeError, ValueError):
        raise _not_a_pair(dataset) from None
    if array.ndim == 0 or array.dtype == object:
        raise _not_a_pair(dataset)
    return array


def _in_float_type(array: Any) -> Any:
    return array.astype(keras.config.floatx()) if array.dtype == np.float64 else array


def _lengths(nested: Any, flat: list[Any]) -> str:
    """Return the sentence about arrays of different lengths."""
    if isinstance(nested, tuple) and len(nested) == 2 and len(flat) == 2:
        inputs, targets = map(len, flat)
        return (
            f"datasets() gave {inputs} inputs but {targets} targets: "
            "there must be one target per input."
        )
    counts = ", ".join(str(len(array)) for array in flat)
    return (
        f"datasets() gave arrays of different lengths ({counts}): each array of a data set must "
        "have one row per sample."
    )


def _not_a_pair(dataset: Any) -> ValueError:
    return ValueError(
        f"datasets() gave a {type(dataset).__name__}: each data set must be a "
        "pair (inputs, targets) of arrays, with sample weights as a third item if there are any, "
        "a dictionary of arrays, or batches (tf.data.Dataset, keras.utils.PyDataset)."
    )
