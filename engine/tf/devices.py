"""TensorFlow's devices: their configuration before the first operation, and their memory."""

from __future__ import annotations

import gc
from collections.abc import Sequence

import keras
import tensorflow as tf

from engine.processes.process import resident_bytes, resident_metric, trim_heap
from engine.spec.device_names import all_on_cpu, is_logical_cpu
from engine.spec.run_spec import RunSpec

_POLICIES = {"bf16": "mixed_bfloat16", "fp16": "mixed_float16"}


def configure(devices: Sequence[str], memory_limit_mib: int = 0) -> list[str]:
    """Configure the `devices` of the spec; return TensorFlow's names for them, in order.

    Call this before TensorFlow's first operation. A device that occurs n times is divided into n
    logical devices. Each logical GPU gets `memory_limit_mib`; with 0, a GPU takes memory as it
    needs it and cannot be divided. CUDA_VISIBLE_DEVICES lists the chosen GPUs in the spec's order,
    so the ordinal of a GPU is its index. Raises RuntimeError when TensorFlow does not see a chosen
    GPU, because TensorFlow itself would silently use the CPU, or wait for ever.
    """
    if all_on_cpu(devices):
        (cpu,) = tf.config.list_physical_devices("CPU")
        logical = [tf.config.LogicalDeviceConfiguration() for _ in devices]
        tf.config.set_logical_device_configuration(cpu, logical)
        return [f"CPU:{index}" for index in range(len(devices))]
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
    return [f"GPU:{index}" for index in range(len(devices))]


def set_numerics(spec: RunSpec) -> None:
    """Set precision and determinism as in `spec`; call this before the recipe is imported."""
    keras.mixed_precision.set_global_policy(_POLICIES.get(spec.precision, "float32"))
    tf.config.experimental.enable_tensor_float_32_execution(spec.precision == "tf32")
    if spec.deterministic:
        tf.config.experimental.enable_op_determinism()


def memory_metrics() -> dict[str, float]:
    """Return the bytes of TensorFlow's tensors on all GPUs of this process.

    Without a GPU, return the resident memory of this process.
    """
    # The logical devices of a coordinator would include those of its workers.
    if not tf.config.get_visible_devices("GPU"):
        return resident_metric()
    gpus = tf.config.list_logical_devices("GPU")
    infos = [tf.config.experimental.get_memory_info(f"GPU:{k}") for k in range(len(gpus))]
    return {"memory_allocated": float(sum(info["current"] for info in infos))}


def empty_cache(devices: Sequence[str]) -> dict[str, int]:
    """Free unused memory of this process; return the freed bytes of each of its `devices`.

    A GPU frees 0 bytes: TensorFlow keeps its GPU memory until the process ends.
    """
    before = resident_bytes()
    gc.collect()
    trim_heap()
    freed = dict.fromkeys(devices, 0)
    if devices and is_logical_cpu(devices[0]):
        # All logical CPU devices share one process: its memory is counted once.
        freed[devices[0]] = max(0, before - resident_bytes())
    return freed


class NoHostOffload:
    """The methods for host offload, which TensorFlow lacks: `can_free_devices` is false."""

    def free_devices(self) -> None:
        raise RuntimeError("TensorFlow cannot move its variables: no supervisor asks for it.")

    def restore_devices(self) -> None:
        raise RuntimeError("Nothing was ever moved from the devices.")
