"""TensorFlow's devices: made before the first operation, and what they hold later."""

from __future__ import annotations

import gc
from collections.abc import Sequence

import keras
import tensorflow as tf

from engine.spec.device_names import all_on_cpu, is_logical_cpu
from engine.spec.run_spec import RunSpec
from engine.system.process import resident_bytes, trim_heap

_POLICIES = {"bf16": "mixed_bfloat16", "fp16": "mixed_float16"}


def configure(devices: Sequence[str], memory_limit_mib: int = 0) -> list[str]:
    """Make the chosen `devices` (names of the spec) exist; TensorFlow's names for them, in order.

    A device that is named several times is divided into as many logical ones. On GPUs each logical
    device gets `memory_limit_mib`; 0: it takes memory as it needs it, which several on one GPU
    cannot. CUDA_VISIBLE_DEVICES lists the chosen GPUs in the spec's order, so that place is the
    ordinal. Raises RuntimeError with a sentence when TensorFlow does not see a GPU: it would fall
    back to the CPU in silence, or wait for ever.
    """
    if all_on_cpu(devices):
        (cpu,) = tf.config.list_physical_devices("CPU")
        logical = [tf.config.LogicalDeviceConfiguration() for _ in devices]
        tf.config.set_logical_device_configuration(cpu, logical)
        return [f"CPU:{place}" for place in range(len(devices))]
    chosen = list(dict.fromkeys(devices))
    seen = tf.config.get_visible_devices("GPU")
    if len(seen) < len(chosen):
        raise RuntimeError(
            f"TensorFlow sees {len(seen)} of the {len(chosen)} chosen GPUs: install its CUDA "
            "libraries with pip install -e '.[cuda]', and check the driver."
        )
    for name, gpu in zip(chosen, seen, strict=False):
        if memory_limit_mib:
            part = tf.config.LogicalDeviceConfiguration(memory_limit=memory_limit_mib)
            tf.config.set_logical_device_configuration(gpu, [part] * devices.count(name))
        else:
            tf.config.experimental.set_memory_growth(gpu, True)
    return [f"GPU:{place}" for place in range(len(devices))]


def set_numerics(spec: RunSpec) -> None:
    """Compute as precisely, and as repeatably, as `spec` says; before the recipe is imported."""
    keras.mixed_precision.set_global_policy(_POLICIES.get(spec.precision, "float32"))
    tf.config.experimental.enable_tensor_float_32_execution(spec.precision == "tf32")
    if spec.deterministic:
        tf.config.experimental.enable_op_determinism()


def memory_figures() -> dict[str, float]:
    """Bytes that TensorFlow's tensors take on this process' GPUs together.

    For a CPU: the memory of this process.
    """
    gpus = tf.config.list_logical_devices("GPU")
    if not gpus:
        return {"memory_resident": float(resident_bytes())}
    infos = [tf.config.experimental.get_memory_info(f"GPU:{k}") for k in range(len(gpus))]
    return {"memory_allocated": float(sum(info["current"] for info in infos))}


def empty_cache(devices: Sequence[str]) -> dict[str, int]:
    """Tidy this process up; bytes given back, by each of its `devices`.

    TensorFlow keeps the GPU memory that it took until its process ends: there it is 0.
    """
    before = resident_bytes()
    gc.collect()
    trim_heap()
    freed = dict.fromkeys(devices, 0)
    if devices and is_logical_cpu(devices[0]):
        # The logical CPU devices are one process: its memory is counted once.
        freed[devices[0]] = max(0, before - resident_bytes())
    return freed


class StaysOnDevices:
    """The part of a trainer that a strategy without `can_free_devices` never needs."""

    def free_devices(self) -> None:
        raise RuntimeError("TensorFlow cannot move its variables: the supervisor refuses to ask.")

    def restore_devices(self) -> None:
        raise RuntimeError("Nothing was ever moved from the devices.")
