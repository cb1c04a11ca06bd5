"""The defaults for the functions that a Keras recipe leaves out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras


def optimizer(parameters: Any, learning_rate: float) -> keras.optimizers.Optimizer:
    """Return AdamW."""
    return keras.optimizers.AdamW(learning_rate)


def metrics(outputs: Any, targets: Any) -> dict[str, Any]:
    """Return no metrics besides the loss."""
    return {}


def loss(has_classes: bool) -> Callable[[Any, Any], Any]:
    """Return cross-entropy from logits for targets that are classes, else mean squared error.

    Both give one loss per sample.
    """
    return _cross_entropy if has_classes else _squared_error


def _cross_entropy(outputs: Any, targets: Any) -> Any:
    return keras.losses.sparse_categorical_crossentropy(targets, outputs, from_logits=True)


def _squared_error(outputs: Any, targets: Any) -> Any:
    return keras.losses.mean_squared_error(targets, outputs)
