"""Device memory: how much this process holds, out-of-memory messages, and freeing memory."""

from __future__ import annotations

import gc
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

from engine.processes.process import resident_bytes, resident_metric, trim_heap
from engine.pytorch.devices import gpu_module, is_gpu
from engine.system.units import byte_size, gib
from engine.training.errors import OutOfMemory, allocation, full_device, memory_advice

_REQUESTED = re.compile(r"[Tt]ried to allocate ([\d.]+) ?(bytes|KiB|MiB|GiB)?")
_OUT_OF_MEMORY = re.compile(
    "can't allocate memory"  # of the host
    "|(?:CUDA|Cuda|HIP)[^\\n]*out of memory"  # also of the driver, NCCL and Triton
    "|ALLOC(?:ATION)?_FAILED"  # of cuBLAS, cuDNN, cuFFT, cuSOLVER, cuSPARSE
)
_LIBRARY_FAILED = re.compile(
    "(?:CUBLAS|CUDNN|CUSOLVER|CUSPARSE)_STATUS_(?:EXECUTION_FAILED|INTERNAL_ERROR|NOT_INITIALIZED)"
    "|CUFFT_(?:EXEC_FAILED|INTERNAL_ERROR|SETUP_FAILED)"
    "|unable to find an engine"  # of cuDNN
)
"""What a library says, among other reasons, when the driver has no room for its kernels."""

DRIVER_ROOM = 2**29
"""Bytes that the driver needs for the kernels and workspaces of libraries, which it loads late."""

_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class DeviceMemory(NamedTuple):
    """Memory of one device, in bytes."""

    total: int
    free: int
    reserved: int
    """Held by this process: its tensors and PyTorch's cache."""


def device_memory(device: torch.device) -> DeviceMemory | None:
    """Return the present memory of a GPU; None for a CPU."""
    if not is_gpu(device):
        return None
    gpu = gpu_module(device)
    free, total = gpu.mem_get_info(device)
    return DeviceMemory(total, free, gpu.memory_reserved(device))


@contextmanager
def explain_out_of_memory(
    devices: Sequence[torch.device], names: Sequence[str], batch: int, accumulation: int
) -> Iterator[None]:
    """Raise OutOfMemory, with the numbers, for an out-of-memory error in this context.

    `devices` are those of this process, and `names` their names in the spec; `batch` is the number
    of samples of a local batch.
    """
    try:
        yield
    except (torch.OutOfMemoryError, RuntimeError, MemoryError) as error:
        text = str(error)
        if not is_out_of_memory(error, devices):
            if _LIBRARY_FAILED.search(text):
                _note_failed_kernel(error, devices)
            raise
        index = _full_device(text, devices)
        explained = OutOfMemory(
            out_of_memory_message(
                text, names[index], device_memory(devices[index]), batch, accumulation
            )
        )
        explained.what = failed_allocation(error, devices, names)
        raise explained from error


def failed_allocation(
    error: BaseException, devices: Sequence[torch.device], names: Sequence[str]
) -> str:
    """Return `OutOfMemory.what` for an out-of-memory error; see above."""
    text = str(error)
    requested = _requested(text)
    asked = byte_size(requested) if requested else ""
    return allocation(asked, names[_full_device(text, devices)])


def full_text(error: BaseException, devices: Sequence[torch.device], names: Sequence[str]) -> str:
    """Return what to say when a paused run has no room on its `devices` (see above) any more."""
    index = _full_device(str(error), devices)
    details = ""
    if memory := device_memory(devices[index]):
        details = f" ({gib(memory.free, 2)} of {gib(memory.total, 2)} are free)"
    return (
        f"The run stays paused: {names[index]} has no room for it now{details}. Resume it when "
        "other programs have freed the device, or stop it: its checkpoint is saved."
    )


def is_out_of_memory(error: BaseException, devices: Iterable[torch.device]) -> bool:
    """Whether one of `devices` or the host has no memory left; not all such errors have a type.

    A library whose kernel cannot be loaded on a full card only says that it failed.
    """
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    text = str(error) if isinstance(error, RuntimeError) else ""
    if _OUT_OF_MEMORY.search(text):
        return True
    return bool(_LIBRARY_FAILED.search(text)) and any(map(_is_full, devices))


def _note_failed_kernel(error: BaseException, devices: Iterable[torch.device]) -> None:
    """Add what the GPU says to an error that came after the failure of a kernel.

    The next call hears of that failure, and cuDNN for one only says that it failed itself.
    """
    for device in devices:
        if is_gpu(device):
            try:
                gpu_module(device).synchronize(device)
            except RuntimeError as failure:
                error.add_note(str(failure))


def _is_full(device: torch.device) -> bool:
    try:
        memory = device_memory(device)
    except RuntimeError:  # a kernel has failed: then nothing on the GPU answers any more
        return False
    return memory is not None and memory.free < DRIVER_ROOM


def leave_driver_room(devices: Sequence[torch.device]) -> None:
    """Let PyTorch's cache give memory back before it leaves the driver less than `DRIVER_ROOM`.

    It otherwise takes all that is free, and a library then fails in words of its own.
    """
    for device in devices:
        if memory := device_memory(device):
            most = (memory.reserved + memory.free - DRIVER_ROOM) / memory.total
            gpu = gpu_module(device)
            before = gpu.get_per_process_memory_fraction(device)
            gpu.set_per_process_memory_fraction(max(0.0, min(before, most)), device)


def _full_device(text: str, devices: Sequence[torch.device]) -> int:
    """Return which of `devices` an error is about; if its text does not say it, the fullest one.

    Only a process of several devices uses all GPUs of the run, so that their number is their place.
    """
    index = full_device(text, len(devices))
    if index is not None:
        return index
    memories = [device_memory(device) for device in devices]
    return min(range(len(devices)), key=lambda k: memory.free if (memory := memories[k]) else 0)


def _requested(text: str) -> float:
    """Return the bytes that an error says were asked for; 0: it does not say it."""
    found = _REQUESTED.search(text)
    return float(found[1]) * _UNITS[found[2] or "bytes"] if found else 0.0


def out_of_memory_message(
    text: str, name: str, memory: DeviceMemory | None, batch: int, accumulation: int
) -> str:
    """Return an explanation of PyTorch's error `text`, with what the user can try."""
    requested = _requested(text)
    details = [f"{gib(requested, 2)} were asked for"] if requested else []
    if memory:
        others = max(0, memory.total - memory.free - memory.reserved)  # with the driver
        details.append(
            f"{gib(memory.free, 2)} of {gib(memory.total, 2)} are free; this training holds "
            f"{gib(memory.reserved, 2)}, everything else {gib(others, 2)}"
        )
    summary = f"{name} is out of memory{': ' if details else ''}{', '.join(details)}"
    return f"{summary}. {memory_advice(batch, accumulation, 'torch/fsdp or torch/pipeline')}"


def metrics(devices: Sequence[torch.device]) -> dict[str, float]:
    """Return the bytes that PyTorch holds on all `devices`: in tensors, and including its cache.

    Without a GPU, return the resident memory of this process.
    """
    gpus = [device for device in devices if is_gpu(device)]
    if not gpus:
        return resident_metric()
    return {
        "memory_allocated": float(sum(gpu_module(gpu).memory_allocated(gpu) for gpu in gpus)),
        "memory_reserved": float(sum(gpu_module(gpu).memory_reserved(gpu) for gpu in gpus)),
    }


def empty_cache(devices: Sequence[torch.device], names: Sequence[str]) -> dict[str, int]:
    """Free unused memory; return the freed bytes by the device's name in the spec."""
    gc.collect()
    freed = dict.fromkeys(names, 0)
    gpus = [(d, name) for d, name in zip(devices, names, strict=True) if is_gpu(d)]
    if gpus:
        module = gpu_module(gpus[0][0])
        before = {name: module.memory_reserved(device) for device, name in gpus}
        module.empty_cache()
        for device, name in gpus:
            freed[name] = max(0, before[name] - module.memory_reserved(device))
    else:
        # All logical CPU devices share one process: its memory is counted once.
        resident = resident_bytes()
        trim_heap()
        freed[names[0]] = max(0, resident - resident_bytes())
    return freed


def free_workspaces() -> None:
    """Free those of cuBLAS, which come again with its next product.

    They lie in PyTorch's cache, and a segment of it that holds one stays as it is.
    """
    if hasattr(torch._C, "_cuda_clearCublasWorkspaces"):  # in builds for GPUs
        torch._C._cuda_clearCublasWorkspaces()


class HostOffload:
    """Moves the tensors of model and optimizer, in place, to the host's memory during a pause."""

    def __init__(self, module: nn.Module, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        """Move everything to the host's memory; the gradients are deleted."""
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        self._module = module
        self._device = next((p.device for p in module.parameters()), torch.device("cpu"))
        tensors = [
            value
            for optimizer in optimizers
            for state in optimizer.state.values()
            for value in state.values()
            if isinstance(value, torch.Tensor)
        ]
        if not isinstance(module, FSDPModule):
            tensors += [*module.parameters(), *module.buffers()]
        self._places = [(part, part.device) for part in map(own_part, tensors)]
        self._to_host()

    def restore(self) -> None:
        """Move every tensor back to its device.

        Raises an error that `is_out_of_memory` if one is full: everything is on the host again.
        """
        try:
            for tensor, device in self._places:
                tensor.data = tensor.data.to(device)
            if isinstance(self._module, FSDPModule):
                self._module.to(self._device)
        except RuntimeError as error:
            if is_out_of_memory(error, {device for _, device in self._places}):
                self._to_host()
            raise

    def _to_host(self) -> None:
        for tensor, _ in self._places:
            tensor.data = tensor.data.cpu()
        if isinstance(self._module, FSDPModule):
            self._module.cpu()  # FSDP has views of its shards, which only the module can move


@torch.no_grad()
def own_part(tensor: torch.Tensor) -> torch.Tensor:
    """Return the part of `tensor` that this rank has, itself: to set its `data` moves that part.

    To set the `data` of a DTensor would leave its part where it is.
    """
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor
