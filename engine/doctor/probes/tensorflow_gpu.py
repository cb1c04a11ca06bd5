"""Lists TensorFlow's devices, and computes a convolution, one of XLA, and a sum of replicas."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf


def facts(arguments: list[str]) -> dict[str, Any]:
    """`arguments`: `GPU`, or `CPU` for tests; what to do: `compute` or `mirrored`."""
    kind, what = arguments
    found: dict[str, Any] = {}
    physical = tf.config.list_physical_devices(kind)
    if kind == "CPU":
        parts = [tf.config.LogicalDeviceConfiguration()] * 2
        tf.config.set_logical_device_configuration(physical[0], parts)
    else:
        for device in physical:
            tf.config.experimental.set_memory_growth(device, True)
    names = [device.name for device in tf.config.list_logical_devices(kind)]
    found["devices"] = len(names)
    if names and what == "compute":
        found["errors"], found["failures"] = _errors(names)
    elif len(names) > 1:
        found["sum"], found["failure"] = _mirrored(names)
    return found


def _errors(names: list[str]) -> Any:
    random = np.random.default_rng(0)
    picture, kernel = random.normal(size=(8, 24, 24, 16)), random.normal(size=(3, 3, 16, 32))
    with tf.device("/CPU:0"):
        reference = tf.nn.conv2d(picture, kernel, 1, "SAME").numpy()
    errors: dict[str, float] = {}
    failures: dict[str, str] = {}

    def compute() -> Any:
        x, y = tf.constant(picture, tf.float32), tf.constant(kernel, tf.float32)
        return tf.nn.conv2d(x, y, 1, "SAME")

    tf.config.experimental.enable_tensor_float_32_execution(False)
    for name in names:
        for what, function in (
            ("convolution", compute),
            ("XLA", tf.function(compute, jit_compile=True)),
        ):
            key = f"{what} {name.rpartition(':')[2]}"
            try:
                with tf.device(name):
                    result = function()
                if not result.device.endswith(name.rpartition("device:")[2]):
                    failures[key] = f"it was computed on {result.device}"
                difference = np.linalg.norm(result.numpy() - reference)
                errors[key] = float(difference / np.linalg.norm(reference))
            except Exception as error:  # reported by name: the others are tried all the same
                failures[key] = f"{type(error).__name__}: {''.join(str(error).splitlines()[:1])}"
    return errors, failures


def _mirrored(names: list[str]) -> Any:
    """Return the sum over replicas of 1, 2, ... as each replica sees it."""
    try:
        strategy = tf.distribute.MirroredStrategy(names)

        def replica() -> Any:
            context = tf.distribute.get_replica_context()
            own = tf.cast(context.replica_id_in_sync_group, tf.float32) + 1.0
            return context.all_reduce(tf.distribute.ReduceOp.SUM, tf.fill([1 << 20], own))

        @tf.function  # type: ignore[untyped-decorator]
        def step() -> Any:
            return strategy.run(replica)

        results = strategy.experimental_local_results(step())
        return [[float(tf.reduce_min(r)), float(tf.reduce_max(r))] for r in results], ""
    except Exception as error:  # it is the result of the probe
        return None, f"{type(error).__name__}: {''.join(str(error).splitlines()[:1])}"
