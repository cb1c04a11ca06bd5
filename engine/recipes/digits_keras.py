"""Handwritten digits, 8 x 8 pixels, with a small convolutional network in Keras."""

from typing import Any, Literal

import keras
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

DEFAULTS = {"epochs": 20, "batch_size": 64, "learning_rate": 0.003}

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
    """The 1797 digits of scikit-learn; `validation_share` of them are kept for validation."""
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)[..., None]
    labels = digits.target.astype(np.int64)
    train_x, valid_x, train_y, valid_y = train_test_split(
        images, labels, test_size=validation_share, random_state=0, stratify=labels
    )
    return (train_x, train_y), (valid_x, valid_y)


def metrics(outputs: Any, targets: Any) -> dict[str, Any]:
    """Share of the digits that were recognised."""
    guesses = keras.ops.argmax(outputs, axis=1)
    hits = keras.ops.equal(guesses, keras.ops.cast(targets, guesses.dtype))
    return {"accuracy": keras.ops.mean(keras.ops.cast(hits, "float32"))}
