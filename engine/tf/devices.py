"""TensorFlow's devices: their configuration before the first operation, and their memory."""

from __future__ import annotations

import gc
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any, Literal

import keras
import tensorflow as tf

from engine.processes.process import resident_bytes, resident_metric, trim_heap
from engine.spec.device_names import all_on_cpu
from engine.spec.run_spec import RunSpec
from engine.system.program import call
from engine.training.errors import (
    OutOfMemory,
    TrainingFailed,
    allocation,
    full_device,
    memory_advice,
)
from engine.training.probes.memory_record import CPU, DeviceRecord, RankRecord

Kind = Literal["CPU", "GPU"]
"""What kind of device: the tests give logical CPUs to what GPUs do."""

_ASKED = re.compile(r"OOM when allocating (tensor with shape\s?\[[\d,]*\] and type \w+)")
_POLICIES = {"bf16": "mixed_bfloat16", "fp16": "mixed_float16"}


def kind_of(devices: Sequence[str]) -> Kind:
    """Return the kind of the `devices` of a spec, which are all of one."""
    return "CPU" if all_on_cpu(devices) else "GPU"


def configure(devices: Sequence[str], memory_limit_mib: int = 0) -> list[str]:
    """Configure the `devices` of the spec; return TensorFlow's names for them, in order.

    Call this before TensorFlow's first operation. A device that occurs n times is divided into n
    logical devices; all CPU devices are parts of one. Each logical GPU gets `memory_limit_mib`;
    with 0, a GPU takes memory as it needs it and cannot be divided. CUDA_VISIBLE_DEVICES lists the
    chosen GPUs in the spec's order, so the ordinal of a GPU is its index. Raises TrainingFailed
    when TensorFlow does not see a chosen GPU, because TensorFlow itself would silently use the CPU,
    or wait for ever.
    """
    kind = kind_of(devices)
    chosen = list(dict.fromkeys(devices))
    parts = [len(devices)] if kind == "CPU" else [devices.count(name) for name in chosen]
    seen = tf.config.get_visible_devices(kind)
    if len(seen) < len(parts):
        raise TrainingFailed(
            f"TensorFlow {tf.__version__} of {sys.executable} sees {len(seen)} of the "
            f"{len(chosen)} chosen GPUs ({', '.join(chosen)}). `{call('doctor')}` says whether the "
            "driver, the GPUs or TensorFlow's CUDA libraries are missing; those need an "
            "environment of their own (`env add`)."
        )
    for device, count in zip(seen, parts, strict=False):
        if kind == "CPU" or memory_limit_mib:
            part = tf.config.LogicalDeviceConfiguration(memory_limit=memory_limit_mib or None)
            tf.config.set_logical_device_configuration(device, [part] * count)
        else:
            tf.config.experimental.set_memory_growth(device, True)
    return [f"{kind}:{index}" for index in range(len(devices))]


def own_devices(kind: Kind) -> list[str]:
    """Return TensorFlow's names of the logical devices of this process, in order.

    In a cluster, TensorFlow's own list of logical devices has those of all processes.
    """
    divided = map(tf.config.get_logical_device_configuration, tf.config.get_visible_devices(kind))
    return [f"{kind}:{index}" for index in range(sum(len(parts or [0]) for parts in divided))]


def set_numerics(spec: RunSpec) -> None:
    """Set precision and determinism as in `spec`; call this before the recipe is imported."""
    keras.mixed_precision.set_global_policy(_POLICIES.get(spec.precision, "float32"))
    if spec.precision in ("fp32", "tf32"):  # else it is what TensorFlow does by itself
        tf.config.experimental.enable_tensor_float_32_execution(spec.precision == "tf32")
    if spec.deterministic:
        tf.config.experimental.enable_op_determinism()


def memory_metrics(kind: Kind = "GPU") -> dict[str, float]:
    """Return the bytes of TensorFlow's tensors on all devices of this `kind` in this process.

    Without such a device, return the resident memory of this process.
    """
    devices = own_devices(kind)
    if not devices:
        return resident_metric()
    infos = map(tf.config.experimental.get_memory_info, devices)
    return {"memory_allocated": float(sum(info["current"] for info in infos))}


def memory_record(
    names: Sequence[str], weights: Sequence[Any], trained: Sequence[Any], slots: Sequence[Any]
) -> RankRecord:
    """Return what this process holds of its devices, whose `names` in the spec are in its order.

    The variables are `weights`, of which `trained` have gradients, and the optimizer's `slots`. A
    variable may have a copy on each device.
    """
    kind = kind_of(names)
    devices = own_devices(kind)
    record = RankRecord(devices={CPU if kind == "CPU" else n: DeviceRecord() for n in names})
    by_place = dict(zip(devices, names, strict=False))
    for what, variables in (("weights", weights), ("gradients", trained), ("optimizer", slots)):
        for part in chain.from_iterable(map(_copies, variables)):
            place = ":".join(part.device.rpartition("device:")[2].split(":")[-2:])
            held = record.devices.get(CPU if kind == "CPU" else by_place.get(place, ""))
            if held is not None:
                size = part.dtype.size * part.shape.num_elements()
                setattr(held, what, getattr(held, what) + size)
    if kind == "GPU":
        for place, name in by_place.items():
            info = tf.config.experimental.get_memory_info(place)
            record.devices[name].peak += info["peak"]
            record.devices[name].reserved += info["current"]
    return record


def _copies(variable: Any) -> Sequence[Any]:
    """Return what a variable consists of on the devices."""
    copies: Sequence[Any] = getattr(variable, "values", (variable,))
    return copies


@contextmanager
def explain_out_of_memory(names: Sequence[str], batch: int, accumulation: int) -> Iterator[None]:
    """Raise OutOfMemory, with the device, if one has no memory left in this context.

    `names` are the names in the spec of the devices of this process, in TensorFlow's order; `batch`
    is the number of samples of a local batch.
    """
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        text = str(error)
        index = full_device(text, len(names))
        name = names[index] if index is not None else " or ".join(names) or "A worker"
        asked = _ASKED.search(text)
        asked_for = f": a {asked[1]} was asked for" if asked else ""
        explained = OutOfMemory(
            f"{name} is out of memory{asked_for}. "
            f"{memory_advice(batch, accumulation, 'tf/model_parallel or tf/central_storage')}"
        )
        explained.what = allocation(f"a {asked[1]}" if asked else "", name)
        raise explained from error


def empty_cache(devices: Sequence[str]) -> dict[str, int]:
    """Free unused memory of this process; return the freed bytes of each of its `devices`.

    A GPU frees 0 bytes: TensorFlow keeps its GPU memory until the process ends.
    """
    before = resident_bytes()
    gc.collect()
    trim_heap()
    freed = dict.fromkeys(devices, 0)
    if devices and kind_of(devices) == "CPU":
        # All logical CPU devices share one process: its memory is counted once.
        freed[devices[0]] = max(0, before - resident_bytes())
    return freed


class NoHostOffload:
    """The methods for host offload, which TensorFlow lacks: `can_free_devices` is false."""

    def free_devices(self) -> None:
        raise RuntimeError("TensorFlow cannot move its variables: no supervisor asks for it.")

    def restore_devices(self) -> None:
        raise RuntimeError("Nothing was ever moved from the devices.")
