"""The default loss, optimizer and metrics of a Keras recipe."""

from __future__ import annotations

from typing import Any

import keras


def optimizer(parameters: Any, learning_rate: float) -> keras.optimizers.Optimizer:
    """Return AdamW."""
    return keras.optimizers.AdamW(learning_rate)


def metrics(outputs: Any, targets: Any) -> dict[str, Any]:
    """Return no metrics besides the loss."""
    return {}


def loss(outputs: Any, targets: Any) -> Any:
    """Return cross-entropy from logits for integer targets, else mean squared error.

    One loss per sample, of shape (samples,).
    """
    if targets.dtype.is_integer:
        return keras.losses.sparse_categorical_crossentropy(targets, outputs, from_logits=True)
    return keras.losses.mean_squared_error(targets, outputs)
