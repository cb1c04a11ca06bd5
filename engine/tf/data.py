"""The data sets of a Keras recipe: two tensors, from which batches are gathered by index."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf


class ArraySamples:
    """Samples that are rows of two tensors in the host's memory."""

    def __init__(self, dataset: Any) -> None:
        """`dataset` is a pair (inputs, targets) of arrays. Raises ValueError if it is not."""
        try:
            inputs, targets = (np.asarray(part) for part in dataset)
        except (TypeError, ValueError):
            raise _not_a_pair(dataset) from None
        for array in (inputs, targets):
            if array.ndim == 0 or array.dtype == object:
                raise _not_a_pair(dataset)
        if len(inputs) != len(targets):
            raise ValueError(
                f"datasets() gave {len(inputs)} inputs but {len(targets)} targets: "
                "there must be one target per input."
            )
        if len(inputs) == 0:
            raise ValueError("datasets() gave an empty data set: at least one sample is needed.")
        with tf.device("CPU:0"):
            self._inputs, self._targets = tf.constant(inputs), tf.constant(targets)

    def __len__(self) -> int:
        return int(self._inputs.shape[0])

    def batch(self, indices: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return inputs and targets of the samples with these indices, int64 of shape (samples,).

        The CPU gathers them, so only one batch at a time is copied to a GPU.
        """
        with tf.device("CPU:0"):
            return tf.gather(self._inputs, indices), tf.gather(self._targets, indices)


def data_sets(pair: Any) -> tuple[ArraySamples, ArraySamples]:
    """Return training and validation samples from the result of a recipe's `datasets()`.

    Raises ValueError when it is not a pair of data sets.
    """
    try:
        train, validation = pair
    except (TypeError, ValueError):
        raise ValueError(
            f"datasets() gave a {type(pair).__name__} that is not two data sets: "
            "it must give (train, validation)."
        ) from None
    return ArraySamples(train), ArraySamples(validation)


def _not_a_pair(dataset: Any) -> ValueError:
    return ValueError(
        f"datasets() gave a {type(dataset).__name__}: each of the two data sets must be a "
        "pair (inputs, targets) of arrays."
    )
