"""Who makes a GPU, by the form of its UUID, and the variables with which a process sees it.

NVIDIA's UUID is `GPU-` and groups of digits; AMD's is `GPU-` and 16 digits. A card of AMD without
one is `GPU-amd0`, by ROCm's number; one of Intel is `GPU-intel0`, by its place on the PCI bus.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

GpuMaker = Literal["NVIDIA", "AMD", "Intel"]

GPU_VARIABLES = (
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "ZE_AFFINITY_MASK",
)
"""The environment variables that say which GPUs a process sees."""

_AMD = re.compile(r"GPU-(?:[0-9a-f]{16}|amd\d+)", re.IGNORECASE)
_INTEL = re.compile(r"GPU-intel\d+")


def gpu_maker(gpu: str) -> GpuMaker:
    """Return whose card `gpu` is, by the form of its name."""
    name = gpu.rpartition("/")[2]  # one of another machine has its name before it
    if _AMD.fullmatch(name):
        return "AMD"
    return "Intel" if _INTEL.fullmatch(name) else "NVIDIA"


def gpu_variables(gpus: Sequence[str]) -> dict[str, str]:
    """Return the environment variables with which a process sees `gpus`, in this order, alone.

    `gpus` are of one maker, and of the machine of the process; none: it sees no card.
    """
    numbers = ",".join(map(str, range(len(gpus))))
    match gpu_maker(gpus[0]) if gpus else "NVIDIA":
        case "AMD":
            chosen = ",".join(gpu.removeprefix("GPU-amd") for gpu in gpus)
            # HIP numbers what the layer below it, ROCr, lets through.
            hip = dict.fromkeys(("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"), numbers)
            return {"ROCR_VISIBLE_DEVICES": chosen} | hip
        case "Intel":
            chosen = ",".join(gpu.removeprefix("GPU-intel") for gpu in gpus)
            in_bus_order = {"ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1", "CUDA_VISIBLE_DEVICES": ""}
            return {"ZE_AFFINITY_MASK": chosen} | in_bus_order
        case "NVIDIA":
            return {"CUDA_VISIBLE_DEVICES": ",".join(gpus)}
