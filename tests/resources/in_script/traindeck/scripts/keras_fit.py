"""A script that trains with Keras' fit: dropout, shuffled arrays, validation."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")

import keras
import numpy as np
import traindeck

EPOCHS = 3
keras.utils.set_random_seed(1)
inputs = np.random.default_rng(0).normal(size=(70, 8)).astype("float32")
targets = (inputs.sum(1) > 0).astype("int32")
model = keras.Sequential(
    [
        *([] if "unbuilt" in sys.argv else [keras.Input((8,))]),
        keras.layers.Dense(16, activation="relu"),
        keras.layers.Dropout(0.25),
        keras.layers.Dense(2),
    ]
)
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
model.compile(optimizer=keras.optimizers.Adam(0.01), loss=loss, metrics=["accuracy"])
history = model.fit(
    inputs,
    targets,
    batch_size=16,
    epochs=EPOCHS,
    validation_split=0.2,
    verbose=0,
    callbacks=[traindeck.KerasCallback()],
)
for name, values in history.history.items():
    print(name, [float(value).hex() for value in values[-1:]])
print("end", [float(weight.sum()).hex() for weight in model.get_weights()])
