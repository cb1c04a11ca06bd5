"""Device memory: how much this process holds, out-of-memory messages, and freeing memory."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule

from engine.processes.process import resident_bytes, resident_metric, trim_heap
from engine.system.units import gib
from engine.training.errors import TrainingFailed

_REQUESTED = re.compile(r"[Tt]ried to allocate ([\d.]+) ?(bytes|KiB|MiB|GiB)?")
_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class OutOfMemory(TrainingFailed):
    """A device has too little memory for the training."""


class DeviceMemory(NamedTuple):
    """Memory of one device, in bytes."""

    total: int
    free: int
    reserved: int
    """Held by this process: its tensors and PyTorch's cache."""


def device_memory(device: torch.device) -> DeviceMemory | None:
    """Return the present memory of a GPU; None for a CPU."""
    if device.type != "cuda":
        return None
    free, total = torch.cuda.mem_get_info(device)
    return DeviceMemory(total, free, torch.cuda.memory_reserved(device))


@contextmanager
def explain_out_of_memory(
    device: torch.device, name: str, batch: int, accumulation: int
) -> Iterator[None]:
    """Raise OutOfMemory, with the numbers, for an out-of-memory error in this context.

    `name` is the device's name in the spec; `batch` is the number of samples of a local batch.
    """
    try:
        yield
    except (torch.OutOfMemoryError, RuntimeError) as error:
        text = str(error)
        if not isinstance(error, torch.OutOfMemoryError) and "can't allocate memory" not in text:
            raise
        raise OutOfMemory(
            out_of_memory_message(text, name, device_memory(device), batch, accumulation)
        ) from error


def out_of_memory_message(
    text: str, name: str, memory: DeviceMemory | None, batch: int, accumulation: int
) -> str:
    """Return an explanation of PyTorch's error `text`, with what the user can try."""
    found = _REQUESTED.search(text)
    requested = float(found[1]) * _UNITS[found[2] or "bytes"] if found else 0.0
    details = [f"{gib(requested, 2)} were asked for"] if requested else []
    if memory:
        others = max(0, memory.total - memory.free - memory.reserved)  # with the driver
        details.append(
            f"{gib(memory.free, 2)} of {gib(memory.total, 2)} are free; this training holds "
            f"{gib(memory.reserved, 2)}, everything else {gib(others, 2)}"
        )
    summary = f"{name} is out of memory{': ' if details else ''}{', '.join(details)}"
    return (
        f"{summary}. Each replica computes {batch} samples at once. Try gradient accumulation "
        f"{2 * accumulation} (the same global batch in smaller parts), a smaller batch, precision "
        "bf16, or the strategy torch/fsdp or torch/pipeline on several devices."
    )


def metrics(devices: Sequence[torch.device]) -> dict[str, float]:
    """Return the bytes that PyTorch holds on all `devices`: in tensors, and including its cache.

    Without a GPU, return the resident memory of this process.
    """
    gpus = [device for device in devices if device.type == "cuda"]
    if not gpus:
        return resident_metric()
    return {
        "memory_allocated": float(sum(map(torch.cuda.memory_allocated, gpus))),
        "memory_reserved": float(sum(map(torch.cuda.memory_reserved, gpus))),
    }


def empty_cache(devices: Sequence[torch.device], names: Sequence[str]) -> dict[str, int]:
    """Free unused memory; return the freed bytes by the device's name in the spec."""
    gc.collect()
    freed = dict.fromkeys(names, 0)
    gpus = [(d, name) for d, name in zip(devices, names, strict=True) if d.type == "cuda"]
    before = {name: torch.cuda.memory_reserved(device) for device, name in gpus}
    if gpus:
        torch.cuda.empty_cache()
        for device, name in gpus:
            freed[name] = max(0, before[name] - torch.cuda.memory_reserved(device))
    else:
        # All logical CPU devices share one process: its memory is counted once.
        resident = resident_bytes()
        trim_heap()
        freed[names[0]] = max(0, resident - resident_bytes())
    return freed


class HostOffload:
    """Moves the tensors of model and optimizer, in place, to the host's memory during a pause."""

    def __init__(self, module: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Move everything to the host's memory; the gradients are deleted."""
        optimizer.zero_grad(set_to_none=True)
        self._module = module
        self._device = next((p.device for p in module.parameters()), torch.device("cpu"))
        self._tensors = [
            value
            for state in optimizer.state.values()
            for value in state.values()
            if isinstance(value, torch.Tensor)
        ]
        if not isinstance(module, FSDPModule):
            self._tensors += [*module.parameters(), *module.buffers()]
        self._devices = [tensor.device for tensor in self._tensors]
        for tensor in self._tensors:
            tensor.data = tensor.data.cpu()
        if isinstance(module, FSDPModule):
            module.cpu()  # FSDP keeps views of its shards, which only the module itself can move

    def restore(self) -> None:
        """Move every tensor back to its device."""
        for tensor, device in zip(self._tensors, self._devices, strict=True):
            tensor.data = tensor.data.to(device)
        if isinstance(self._module, FSDPModule):
            self._module.to(self._device)
