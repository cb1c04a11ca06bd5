"""A device that is out of memory for each part of a training batch with over `limit` samples."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

Pair = tuple[np.ndarray, np.ndarray]

DEFAULTS = {"epochs": 2, "batch_size": 32, "learning_rate": 0.05}


class Gate(keras.layers.Layer):  # type: ignore[misc]
    """The identity, which may be out of memory."""

    def __init__(self, limit: int, in_validation: bool) -> None:
        super().__init__()
        self.limit, self.in_validation = limit, in_validation

    def call(self, inputs: Any, training: bool = False) -> Any:
        if not self.limit or not (training or self.in_validation):
            return inputs
        if keras.backend.backend() != "tensorflow":
            _refuse(len(inputs), self.limit)
            return inputs
        import tensorflow as tf

        checked = tf.py_function(_refuse, [tf.shape(inputs)[0], self.limit], [])
        with tf.control_dependencies([checked]):
            return tf.identity(inputs)


def model(limit: int = 0, in_validation: bool = False) -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((6,)),
            keras.layers.Dense(16, activation="tanh"),
            Gate(limit, in_validation),
            keras.layers.Dense(3),
        ]
    )


def datasets() -> tuple[Pair, Pair]:
    inputs = np.random.RandomState(0).randn(70, 6).astype(np.float32)
    targets = inputs[:, :3].argmax(1)
    return (inputs, targets), (inputs, targets)


def _refuse(samples: Any, limit: Any) -> None:
    if samples is not None and samples > limit:
        raise MemoryError("OOM when allocating tensor with shape[99,6] and type float")


def optimizer(parameters: Any, learning_rate: float) -> keras.optimizers.Optimizer:
    return keras.optimizers.SGD(learning_rate, momentum=0.9)
