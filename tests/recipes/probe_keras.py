"""A small network for comparing strategies; 97 samples: uneven batches."""

import os
import threading
from pathlib import Path
from typing import Any

import keras
import numpy as np

Pair = tuple[np.ndarray, np.ndarray]


def model(width: int = 24, dropout: float = 0.0) -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((8, 8)),
            keras.layers.Flatten(),
            keras.layers.Dense(width, activation="tanh"),
            keras.layers.Dropout(dropout),
            keras.layers.Dense(10),
        ]
    )


def datasets() -> tuple[Pair, Pair]:
    """Noisy pictures of ten patterns."""
    random = np.random.RandomState(0)
    labels = np.arange(130) % 10
    patterns = random.randn(10, 8, 8)
    images = (patterns[labels] + random.randn(130, 8, 8)).astype(np.float32)
    return (images[:97], labels[:97]), (images[97:], labels[97:])


def loss(outputs: Any, targets: Any, hold: bool = False, saved: int = 1) -> Any:
    """Cross-entropy. With `hold` the training stands still after `saved` checkpoints."""
    if hold:
        hold_here(saved)
    return keras.losses.sparse_categorical_crossentropy(targets, outputs, from_logits=True)


def metrics(outputs: Any, targets: Any) -> dict[str, Any]:
    """The mean of every output: together they identify the trained function."""
    return {f"output_{k}": keras.ops.mean(outputs[:, k]) for k in range(10)}


def optimizer(parameters: Any, learning_rate: float) -> keras.optimizers.Optimizer:
    return keras.optimizers.SGD(learning_rate, momentum=0.9)


def hold_here(saved: int) -> None:
    """Have every step wait for ever, once the first attempt has `saved` checkpoints."""
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        # This function itself runs only once, when the step is traced.
        tf.py_function(lambda: wait(saved), [], [])
    else:
        wait(saved)


def wait(saved: int) -> None:
    """Wait for ever, once the first attempt of the run has `saved` checkpoints."""
    found = list(Path(os.environ["TRAINDECK_RUN_FOLDER"]).glob("checkpoints/step-*[0-9]"))
    if len(found) >= saved and not os.environ.get("TRAINDECK_RESUME"):
        threading.Event().wait()
