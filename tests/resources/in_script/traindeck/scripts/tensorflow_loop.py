"""A TensorFlow loop of one's own with calls."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import keras
import numpy as np
import tensorflow as tf
import traindeck

SAMPLES = 70
keras.utils.set_random_seed(1)
model = keras.Sequential(
    [
        keras.Input((8,)),
        keras.layers.Dense(16, activation="relu"),
        keras.layers.Dropout(0.25),
        keras.layers.Dense(2),
    ]
)
optimizer = keras.optimizers.Adam(0.01)
optimizer.build(model.trainable_variables)
entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
traindeck.keep(model=model, optimizer=optimizer)
inputs = np.random.default_rng(0).normal(size=(SAMPLES, 8)).astype("float32")
targets = (inputs.sum(1) > 0).astype("int32")
data = tf.data.Dataset.from_tensor_slices((inputs, targets)).shuffle(100).batch(16)


@tf.function
def train(batch):
    x, y = batch
    with tf.GradientTape() as tape:
        loss = entropy(y, model(x, training=True))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
    return loss


for epoch in traindeck.epochs(3):
    for batch in traindeck.batches(data):
        loss = train(batch)
        traindeck.log(loss=loss)
        print(f"loss {epoch} {float(loss)!r}", flush=True)
print("end", [float(weight.sum()).hex() for weight in model.get_weights()])
