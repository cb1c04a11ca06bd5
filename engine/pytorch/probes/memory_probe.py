"""Measures a step of one rank for the estimate of memory: its tensors, and what it allocates."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain
from typing import Any

import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from engine.processes import own_memory
from engine.pytorch.devices import gpu_module, is_gpu
from engine.pytorch.memory import own_part
from engine.training.probes.memory_record import (
    CPU,
    RECORDED_STEP,
    DeviceRecord,
    RankRecord,
    is_step_asked,
)


class MemoryProbe:
    """The measurement of one rank. Nothing of it needs other ranks."""

    def __init__(self, devices: Sequence[torch.device], names: Sequence[str]) -> None:
        """`devices` are those of this process, and `names` their names in the spec."""
        self._names = {
            device: name if is_gpu(device) else CPU
            for device, name in zip(devices, names, strict=True)
        }
        self._record = RankRecord(devices={name: DeviceRecord() for name in self._names.values()})

    def is_due(self, step: int) -> bool:
        """Whether the step with this number, from 0, is the one to record."""
        return step == RECORDED_STEP and is_step_asked()

    @contextmanager
    def recorded(
        self,
        module: nn.Module,
        optimizers: Iterable[torch.optim.Optimizer],
        average: Iterable[torch.Tensor],
    ) -> Iterator[None]:
        """Record the step in this context; afterwards, the gradients are still there."""
        self._begin()
        # Before 2.13, PyTorch warns of what it forgets unless events are kept.
        activities = [ProfilerActivity.CPU]
        with profile(activities=activities, profile_memory=True, acc_events=True) as profiler:
            yield
            self._synchronize()
        self._end()
        self._note_allocations(profiler)
        parameters = list(module.parameters())
        self._add("weights", chain(parameters, module.buffers()))
        self._add("gradients", (p.grad for p in parameters if p.grad is not None))
        states = (state for optimizer in optimizers for state in optimizer.state.values())
        self._add("optimizer", (v for s in states for v in s.values() if torch.is_tensor(v)))
        self._add("average", average)

    def record(self) -> RankRecord:
        """Return what was measured so far."""
        for device, name in self._names.items():
            if is_gpu(device):
                record, gpu = self._record.devices[name], gpu_module(device)
                free, size = gpu.mem_get_info(device)
                record.used = size - free
                record.reserved = gpu.memory_reserved(device)
                record.peak = gpu.max_memory_reserved(device)
        return self._record

    def _begin(self) -> None:
        for device, name in self._names.items():
            if is_gpu(device):
                gpu_module(device).synchronize(device)
                gpu_module(device).reset_peak_memory_stats(device)
            else:
                self._record.devices[name].peak = own_memory.peak_bytes()
        own_memory.forget_peak()

    def _synchronize(self) -> None:
        for device in self._names:
            if is_gpu(device):
                gpu_module(device).synchronize(device)

    def _end(self) -> None:
        for device, name in self._names.items():
            self._record.devices[name].step_peak = (
                gpu_module(device).max_memory_allocated(device)
                if is_gpu(device)
                else own_memory.peak_bytes()
            )

    def _note_allocations(self, profiler: profile) -> None:
        """Add to the records what was allocated and released, with a number for each block."""
        numbers: dict[tuple[str, int], int] = {}
        for event in _allocations(profiler):
            found = event.extra_fields
            name = CPU if found.device.type == "cpu" else self._names.get(found.device, "")
            if (record := self._record.devices.get(name)) is None or not found.alloc_size:
                continue
            place, number = (name, found.ptr), len(record.allocations)
            if found.alloc_size > 0:
                numbers[place] = number
            else:  # one without a number was there before the step
                number = numbers.pop(place, number)
            record.allocations.append((number, found.alloc_size))

    def _add(self, what: str, tensors: Iterable[torch.Tensor]) -> None:
        """Add the bytes of the storages of `tensors`, each once, to what their devices hold."""
        seen: set[tuple[torch.device, int]] = set()
        for tensor in map(own_part, tensors):
            if tensor.is_meta or tensor.layout is not torch.strided:
                continue
            storage = tensor.untyped_storage()
            key = (tensor.device, storage.data_ptr())
            if key not in seen and (record := self._of(tensor.device)):
                seen.add(key)
                setattr(record, what, getattr(record, what) + storage.nbytes())

    def _of(self, device: torch.device | None) -> DeviceRecord | None:
        """Return the record of a device; None: it is none of this process, as the host of a GPU."""
        if device is None or device.type == "cpu":
            return self._record.devices.get(CPU)
        return self._record.devices.get(self._names.get(device, ""))


def _allocations(profiler: profile) -> list[Any]:
    """Return the events of all allocations and releases, in order."""
    assert profiler.profiler is not None
    results = profiler.profiler.kineto_results
    assert results is not None
    waiting, found = list(results.experimental_event_tree()), []
    while waiting:
        event = waiting.pop()
        waiting.extend(event.children)
        if event.tag == torch._C._profiler._EventType.Allocation:
            found.append(event)
    return sorted(found, key=lambda event: event.start_time_ns)
