"""A Keras model on PyTorch whose step is our own, with a weight; 37 samples."""

from typing import Any

import keras
import numpy as np

DEFAULTS = {"batch_size": 8, "epochs": 4, "learning_rate": 0.05}


def model() -> keras.Model:
    layers = [keras.Input((4,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(3)]
    return keras.Sequential(layers)


def datasets() -> Any:
    """Every third target does not count."""
    inputs = np.random.RandomState(0).randn(48, 4).astype(np.float32)
    targets = inputs[:, :3].argmax(1)
    targets[::3] = -100
    return (inputs[:37], targets[:37]), (inputs[37:], targets[37:])


def weight(batch: Any) -> Any:
    return (batch[1] >= 0).sum()


def step(model: keras.Model, batch: Any) -> dict[str, Any]:
    outputs = model(batch[0], training=True)
    kept = batch[1] >= 0
    losses = keras.losses.sparse_categorical_crossentropy(
        batch[1][kept], outputs[kept], from_logits=True
    )
    right = keras.ops.argmax(outputs, axis=1)[kept] == batch[1][kept]
    return {"loss": losses.mean(), "right": right.float().mean()}


def optimizer(parameters: Any, learning_rate: float) -> Any:
    return keras.optimizers.SGD(learning_rate, momentum=0.9)
