"""A network without chance in it, for comparing strategies; 97 digits, so batches do not fit."""

from typing import Any

import keras
import numpy as np
from sklearn.datasets import load_digits

Pair = tuple[np.ndarray, np.ndarray]


def model(width: int = 24) -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((8, 8)),
            keras.layers.Flatten(),
            keras.layers.Dense(width, activation="tanh"),
            keras.layers.Dense(10),
        ]
    )


def datasets() -> tuple[Pair, Pair]:
    digits = load_digits()
    images, labels = (digits.images / 16).astype(np.float32), digits.target.astype(np.int64)
    return (images[:97], labels[:97]), (images[97:130], labels[97:130])


def metrics(outputs: Any, targets: Any) -> dict[str, Any]:
    """The mean of every output: together they pin down the function that was learnt."""
    return {f"output_{k}": keras.ops.mean(outputs[:, k]) for k in range(10)}


def optimizer(parameters: Any, learning_rate: float) -> keras.optimizers.Optimizer:
    return keras.optimizers.SGD(learning_rate, momentum=0.9)
