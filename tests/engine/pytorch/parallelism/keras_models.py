"""Small Keras models, their data and optimizers, for the ranks of `keras_ddp_rank`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import torch
from keras import layers, optimizers

OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda variables: optimizers.SGD(0.1),
    "momentum": lambda variables: optimizers.SGD(0.1, momentum=0.9),
    "adamw": lambda variables: optimizers.AdamW(0.1),
    "nadam": lambda variables: optimizers.Nadam(0.1),  # has a state that is not a slot
    "rmsprop": lambda variables: optimizers.RMSprop(0.1, centered=True, momentum=0.5),
    "average": lambda variables: optimizers.Adam(0.1, use_ema=True, ema_overwrite_frequency=2),
    "accumulating": lambda variables: optimizers.SGD(0.1, gradient_accumulation_steps=2),
    "torch": lambda variables: torch.optim.AdamW([v.value for v in variables], 0.1),
}


def smooth_model() -> Any:
    """A model without random numbers, with two losses of its own; its first sample builds it."""
    return keras.Sequential(
        [
            layers.Conv2D(4, 3, activation="tanh", kernel_regularizer="l2", name="first"),
            layers.Flatten(),
            layers.Dense(3, activity_regularizer="l2", name="last", bias_constraint="non_neg"),
        ],
        name="smooth",
    )


def noisy_model() -> Any:
    """A model with running statistics and random numbers."""
    return keras.Sequential(
        [
            keras.Input((8, 8, 2)),
            layers.BatchNormalization(momentum=0.5, name="norm"),
            layers.Flatten(),
            layers.Dropout(0.5, seed=3),
            layers.Dense(3, name="last"),
        ],
        name="noisy",
    )


def samples(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(count, 8, 8, 2, generator=generator)
    return images, torch.randint(0, 3, (count,), generator=generator)
