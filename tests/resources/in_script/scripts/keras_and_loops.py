"""Keras' `fit`, then a loop of one's own, eager and as a tf.function."""

import json
import sys

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(0)
inputs = np.random.rand(48, 4).astype("float32")
targets = inputs.sum(1, keepdims=True)
shown = {}
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.05), "mse")


class Batches(keras.callbacks.Callback):
    def __init__(self):
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])


batches = Batches()
history = model.fit(
    inputs,
    targets,
    batch_size=16,
    epochs=2,
    validation_data=(inputs, targets),
    callbacks=[batches, keras.callbacks.ModelCheckpoint(sys.argv[1] + "/own.keras")],
    verbose=0,
)
shown["fit"], shown["validation"] = batches.losses, history.history["val_loss"]

optimizer = keras.optimizers.SGD(0.05)


def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x) - y))
    weights = model.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
    return loss


for name, step in (("eager", train_step), ("graph", tf.function(train_step))):
    shown[name] = [float(step(inputs, targets)) for _ in range(3)]
print(json.dumps(shown), flush=True)
if "endless" in sys.argv:
    model.fit(inputs, targets, batch_size=16, epochs=1000000, verbose=0)
    print("ended", flush=True)
