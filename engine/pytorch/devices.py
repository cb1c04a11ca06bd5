"""PyTorch's devices of one process, and what is said where a chosen GPU is not there.

A GPU is of the type `cuda` (NVIDIA, and AMD with ROCm) or `xpu` (Intel, never tried on a card).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import torch

from engine.spec.device_names import is_logical_cpu
from engine.system.program import call
from engine.telemetry.gpu_makers import gpu_maker
from engine.training.errors import TrainingFailed


def own_devices(names: Sequence[str], chosen: Sequence[str]) -> tuple[torch.device, ...]:
    """Return the devices of this process, and make the first GPU PyTorch's current one.

    `names` are the spec's names of them, and `chosen` those of the whole run: CUDA sees only the
    GPUs of the run, in this order. Raises TrainingFailed if it does not see them all.
    """
    devices = tuple(
        torch.device("cpu")
        if is_logical_cpu(name)
        else torch.device(_gpu_type(name), chosen.index(name))
        for name in names
    )
    if is_gpu(devices[0]):
        module = gpu_module(devices[0])
        _check(module, [name for name in chosen if not is_logical_cpu(name)])
        module.set_device(devices[0])
    return devices


def is_gpu(device: torch.device) -> bool:
    """Whether a device is a GPU of any maker."""
    return device.type in ("cuda", "xpu")


def gpu_module(device: torch.device) -> Any:
    """Return what PyTorch offers for the GPUs of a device's type: `torch.cuda` or `torch.xpu`."""
    return torch.get_device_module(device)


def _gpu_type(name: str) -> str:
    return "xpu" if gpu_maker(name) == "Intel" else "cuda"


def _check(module: Any, gpus: Sequence[str]) -> None:
    """Raise TrainingFailed, with what to do, unless PyTorch can use all of `gpus`."""
    version = f"PyTorch {torch.__version__} of {sys.executable}"
    more = f"`{call('doctor')}` says what is missing and what to install."
    try:
        module.init()
    except (RuntimeError, AssertionError) as error:  # built without CUDA, no driver, no GPU
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise TrainingFailed(
            f"{version} cannot use {', '.join(gpus)}: {lines[0].rstrip('.')}. {more}"
        ) from error
    count = module.device_count()
    if count < len(gpus):
        raise TrainingFailed(
            f"{version} sees {count} of the {len(gpus)} chosen GPUs ({', '.join(gpus)}): one of "
            f"them does not answer, or this process may not use it. {more}"
        )
