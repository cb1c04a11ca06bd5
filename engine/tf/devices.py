"""Prepares TensorFlow's devices; everything here must happen before the first operation."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf

from engine.device_names import is_logical_cpu


def configure(devices: Sequence[str]) -> list[str]:
    """Make the chosen `devices` (names of the spec) exist; TensorFlow's names for them, in order.

    CUDA_VISIBLE_DEVICES lists the chosen GPUs in the spec's order, so that place is the ordinal.
    Raises RuntimeError with a sentence when TensorFlow does not see a GPU: it would fall back to
    the CPU in silence, or wait for ever.
    """
    if all(map(is_logical_cpu, devices)):
        (cpu,) = tf.config.list_physical_devices("CPU")
        logical = [tf.config.LogicalDeviceConfiguration() for _ in devices]
        tf.config.set_logical_device_configuration(cpu, logical)
        return [f"CPU:{place}" for place in range(len(devices))]
    seen = tf.config.list_physical_devices("GPU")
    if len(seen) < len(devices):
        raise RuntimeError(
            f"TensorFlow sees {len(seen)} of the {len(devices)} chosen GPUs: install its CUDA "
            "libraries with pip install -e '.[cuda]', and check the driver."
        )
    for gpu in seen:
        tf.config.experimental.set_memory_growth(gpu, True)
    return [f"GPU:{place}" for place in range(len(devices))]
