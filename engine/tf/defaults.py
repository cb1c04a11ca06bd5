"""What a Keras recipe gets when it leaves a function out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras


def optimizer(parameters: Any, learning_rate: float) -> keras.optimizers.Optimizer:
    """AdamW."""
    return keras.optimizers.AdamW(learning_rate)


def metrics(outputs: Any, targets: Any) -> dict[str, Any]:
    """None, for recipes that only care for the loss."""
    return {}


def loss(has_classes: bool) -> Callable[[Any, Any], Any]:
    """Cross-entropy from logits for targets that are classes, mean squared error otherwise."""
    return _cross_entropy if has_classes else _squared_error


def _cross_entropy(outputs: Any, targets: Any) -> Any:
    return keras.losses.sparse_categorical_crossentropy(targets, outputs, from_logits=True)


def _squared_error(outputs: Any, targets: Any) -> Any:
    return keras.losses.mean_squared_error(targets, outputs)
