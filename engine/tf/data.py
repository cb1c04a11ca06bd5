"""A recipe's data for TensorFlow: two tensors, from which any batch is gathered by index."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf


class ArraySamples:
    """Samples that are rows of two tensors in the host's memory."""

    def __init__(self, dataset: Any) -> None:
        """`dataset` is what a recipe's `datasets()` gave. Raises ValueError with a sentence."""
        try:
            inputs, targets = (np.asarray(part) for part in dataset)
        except (TypeError, ValueError):
            raise _no_pair(dataset) from None
        for array in (inputs, targets):
            if array.ndim == 0 or array.dtype == object:
                raise _no_pair(dataset)
        if len(inputs) != len(targets):
            raise ValueError(
                f"datasets() gave {len(inputs)} inputs but {len(targets)} targets: "
                "there must be one target per input."
            )
        if len(inputs) == 0:
            raise ValueError("datasets() gave an empty data set: at least one sample is needed.")
        self.has_classes = np.issubdtype(targets.dtype, np.integer)
        with tf.device("CPU:0"):
            self._inputs, self._targets = tf.constant(inputs), tf.constant(targets)

    def __len__(self) -> int:
        return int(self._inputs.shape[0])

    def batch(self, indices: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Inputs and targets of the samples with these indices; only they travel to a GPU."""
        with tf.device("CPU:0"):
            return tf.gather(self._inputs, indices), tf.gather(self._targets, indices)


def data_sets(given: Any) -> tuple[ArraySamples, ArraySamples]:
    """Training and validation samples from what a recipe's `datasets()` gave.

    Raises ValueError with a sentence when it is anything else.
    """
    try:
        train, validation = given
    except (TypeError, ValueError):
        raise ValueError(
            f"datasets() gave a {type(given).__name__} that is not two data sets: "
            "it must give (train, validation)."
        ) from None
    return ArraySamples(train), ArraySamples(validation)


def _no_pair(dataset: Any) -> ValueError:
    return ValueError(
        f"datasets() gave a {type(dataset).__name__}: each of the two data sets must be a "
        "pair (inputs, targets) of arrays."
    )
