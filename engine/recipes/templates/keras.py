"""My recipe: handwritten digits with Keras. Put your own model and data in their place.

It trains with TensorFlow, and under torch/keras_ddp with PyTorch. `traindeck check FILE` tries it
on one batch; `traindeck train --recipe FILE` trains it.
"""

import keras
import numpy as np
from sklearn.datasets import load_digits

# Defaults of the form. The batch size is the global batch: samples per step over all devices.
DEFAULTS = {"epochs": 10, "batch_size": 64, "learning_rate": 0.001}

# Which way a metric is better, if its name does not tell:
# METRIC_DIRECTIONS = {"novelty": "max"}


# Keyword arguments with a default are fields of the form, and `--set width=64` in the terminal.
def model(width: int = 64, dropout: float = 0.1):
    return keras.Sequential(
        [
            keras.Input((8, 8)),
            keras.layers.Flatten(),
            keras.layers.Dense(width, activation="relu"),
            keras.layers.Dropout(dropout),
            keras.layers.Dense(10),
        ]
    )


# Training and validation data: pairs of arrays.
def datasets(validation_share: float = 0.2):
    digits = load_digits()
    images = (digits.images / 16).astype(np.float32)
    labels = digits.target.astype(np.int64)
    count = int(len(images) * (1 - validation_share))
    return (images[:count], labels[:count]), (images[count:], labels[count:])


# Everything below is optional. --------------------------------------------------------------------


# The mean over the given samples. Default: cross-entropy for whole numbers, else squared error.
# keras.ops works with both frameworks.
def loss(outputs, targets):
    values = keras.losses.sparse_categorical_crossentropy(targets, outputs, from_logits=True)
    return keras.ops.mean(values)


# Further curves of the validation: means over the given samples.
def metrics(outputs, targets):
    guesses = keras.ops.argmax(outputs, axis=1)
    hits = keras.ops.equal(guesses, keras.ops.cast(targets, guesses.dtype))
    return {"accuracy": keras.ops.mean(keras.ops.cast(hits, "float32"))}


# Leave it out to choose optimizer and schedule in the form.
def optimizer(parameters, learning_rate):
    return keras.optimizers.AdamW(learning_rate, weight_decay=0.01)


# In the place of loss() and metrics(): one step as you write it. Every entry is a curve. A model
# that is compiled brings its own loss, metrics and optimizer: model.compile(...) in model().
#
# def step(model, batch):
#     images, labels = batch
#     losses = keras.losses.sparse_categorical_crossentropy(
#         labels, model(images, training=True), from_logits=True
#     )
#     return {"loss": keras.ops.mean(losses)}
#
#
# What the loss of a batch is a mean of, if it is not the samples: such as its tokens.
#
# def weight(batch):
#     return keras.ops.sum(batch["mask"])
#
#
# After each epoch, with the metrics of its validation; what is true ends the training early.
#
# def on_epoch(model, epoch, metrics):
#     return metrics["validation/accuracy"] > 0.99
#
#
# Callbacks of Keras, which act at the ends of epochs.
#
# def callbacks():
#     return [keras.callbacks.ReduceLROnPlateau(monitor="val_loss", patience=2)]
