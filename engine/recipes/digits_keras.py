"""Handwritten digits, 8 x 8 pixels, with a small convolutional network in Keras."""

from pathlib import Path
from typing import Any, Literal

import keras
import numpy as np

DEFAULTS = {"epochs": 20, "batch_size": 64, "learning_rate": 0.003}

FILE = Path(__file__).with_name("digits.npz")
Pair = tuple[np.ndarray, np.ndarray]


def model(
    width: int = 32, dropout: float = 0.1, activation: Literal["relu", "gelu", "tanh"] = "relu"
) -> keras.Model:
    """Two convolutions of `width` and 2 x `width` channels, then a classifier with `dropout`."""
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(width, 3, padding="same", activation=activation),
            keras.layers.Conv2D(2 * width, 3, padding="same", activation=activation),
            keras.layers.MaxPooling2D(2),
            keras.layers.Flatten(),
            keras.layers.Dropout(dropout),
            keras.layers.Dense(10),
        ]
    )


def datasets(validation_share: float = 0.2) -> tuple[Pair, Pair]:
    """All 1797 digits; `validation_share` of them, as many of each, are kept for validation."""
    digits = np.load(FILE)
    images = (digits["images"] / 16).astype(np.float32)[..., None]
    labels = digits["labels"].astype(np.int64)
    order = np.random.RandomState(0).permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]  # by digit, in any order of each
    kept = np.linspace(0, len(order) - 1, round(validation_share * len(order))).astype(int)
    valid, train = order[kept], np.delete(order, kept)
    return (images[train], labels[train]), (images[valid], labels[valid])


def metrics(outputs: Any, targets: Any) -> dict[str, Any]:
    """Share of the digits that were recognised."""
    guesses = keras.ops.argmax(outputs, axis=1)
    hits = keras.ops.equal(guesses, keras.ops.cast(targets, guesses.dtype))
    return {"accuracy": keras.ops.mean(keras.ops.cast(hits, "float32"))}
