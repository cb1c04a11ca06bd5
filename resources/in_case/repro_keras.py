"""Does the failed step again, with Keras alone: `python repro.py`.

`code/` holds the recipe of the run and its modules, `step.json` what is known of the step,
`batch.safetensors` its batch or the smallest part that fails, `weights.safetensors` the weights
before it. The exit code is 1 if it fails as it did in the run, 3 if it fails in another way, 0 if
it does not fail, and 2 if it cannot be tried here.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from case_common import STEP, batch_of, call, make_model, read_tensors, run

os.environ.setdefault("KERAS_BACKEND", STEP["backend"])

import keras
import numpy as np

TYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}


def array(kind: str, shape: list[int], data: bytearray) -> Any:
    """Return an array that the file holds."""
    if kind == "BF16":  # NumPy has no such type: it is the first half of a float32
        wide = np.frombuffer(data, "uint16").astype("uint32") << 16
        return wide.view("float32").reshape(shape)
    return np.frombuffer(data, TYPES[kind]).reshape(shape)


def random(kind: str, shape: list[int]) -> Any:
    """Return random values in place of those that are not in the file; whole numbers are 0."""
    if kind in ("F64", "F32", "F16", "BF16"):
        return np.random.default_rng(0).standard_normal(shape).astype(TYPES.get(kind, "float32"))
    return np.zeros(shape, TYPES[kind])


def default_loss(outputs: Any, targets: Any) -> Any:
    """Return the loss of a recipe that has none of its own."""
    if "int" in keras.backend.standardize_dtype(targets.dtype):
        return keras.losses.sparse_categorical_crossentropy(targets, outputs, from_logits=True)
    return keras.losses.mean_squared_error(targets, outputs)


def do_step(module: ModuleType) -> float:
    """Do the step, and return its loss."""
    keras.utils.set_random_seed(STEP["seed"])
    policies = {"bf16": "mixed_bfloat16", "fp16": "mixed_float16"}
    keras.mixed_precision.set_global_policy(policies.get(STEP["precision"], "float32"))
    model = make_model(module)
    batch = batch_of(STEP["tree"], read_tensors("batch", array), random)
    inputs = batch[0] if isinstance(batch, (tuple, list)) else batch
    if not model.built:
        model(inputs)
    if STEP["has_weights"]:
        weights = read_tensors("weights", array)
        for number, variable in enumerate(model.variables):
            variable.assign(weights[str(number)])
    if getattr(model, "compiled", False):
        model.run_eagerly = True  # an exception then has its own text, and the line of the recipe
        parts = batch if isinstance(batch, (tuple, list)) else (batch,)
        return float(np.ravel(model.train_on_batch(*parts))[0])
    tensors = keras.tree.map_structure(keras.ops.convert_to_tensor, batch)
    return with_gradients(model, lambda: loss_of(module, model, tensors))


def loss_of(module: ModuleType, model: Any, batch: Any) -> Any:
    """Compute the loss as the run did, from step() or loss()."""
    if hasattr(module, "step"):
        found = call(module.step, model, batch)
        found = found["loss"] if isinstance(found, dict) else found
    else:
        loss = getattr(module, "loss", None) or default_loss
        found = call(loss, model(batch[0], training=True), batch[1])
    return keras.ops.mean(found)


def with_gradients(model: Any, compute: Callable[[], Any]) -> float:
    """Return the loss that `compute` gives, after its gradients were computed too."""
    if keras.backend.backend() == "torch":
        loss = compute()
        loss.backward()
        return float(loss.detach())
    import tensorflow as tf

    with tf.GradientTape() as tape:
        loss = compute()
    tape.gradient(loss, [variable.value for variable in model.trainable_variables])
    return float(loss)


if __name__ == "__main__":
    sys.exit(run(do_step))
