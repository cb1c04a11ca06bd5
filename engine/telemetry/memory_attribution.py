"""Who uses the memory of a GPU: our runs' workers, other people's processes, nobody we can name.

Pure functions. What a worker says of itself is trusted first; then the driver's list, where a
process has the pid of a worker and started when that did; what neither says is not guessed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from engine.telemetry.snapshot import DeviceSnapshot, GpuProcess

LONGEST_POOL_START = 30.0
"""Seconds from the start of a worker's process until its run notes it, at the most."""

CLOCK_SLACK = 5.0
"""Seconds by which a process may seem to have started too late: the clock was set."""

BUSY_PROCESS = 256 * 2**20
"""Bytes from which on a process is work, not a desktop that shows its windows."""

BUSY_UNNAMED = 2**30
"""Bytes from which on memory of nobody in particular is somebody's work."""


class Worker(NamedTuple):
    """A process of an active run, with what it last said of its memory."""

    run: str
    """Title of its run."""

    rank: int
    pid: int
    noted: float
    """When its run noted its start (seconds since the epoch)."""

    devices: tuple[str, ...]
    """As the spec names them."""

    allocated: float | None = None
    """Bytes of its tensors on all its GPUs together; None: not said since it started."""

    reserved: float | None = None
    """Bytes of its tensors and of its framework's cache."""


class RunUse(NamedTuple):
    """What one worker has on one GPU. None: not available."""

    worker: Worker
    total: int | None
    """Bytes; the sum of the parts as far as they are known, or what the driver counts."""

    tensors: int | None = None
    cache: int | None = None
    context: int | None = None
    """What CUDA, its kernels and its libraries take: everything but the framework's own pool."""

    listed: bool = False
    """Whether the driver lists it: else its context is in the memory of nobody we can name."""

    @property
    def rest(self) -> int:
        """Bytes of the total that belong to no known part."""
        known = sum(part or 0 for part in (self.tensors, self.cache, self.context))
        return max(0, (self.total or 0) - known)


class MemoryUse(NamedTuple):
    """Who uses the memory of one GPU, in bytes."""

    total: int | None
    ours: tuple[RunUse, ...]
    others: tuple[GpuProcess, ...]
    """Processes that no active run of ours has started."""

    others_known: bool
    """Whether it is known which processes there are: on a card that is powered down, none."""

    reserved: int | None
    free: int | None
    unnamed: int | None
    """In use, and belonging to nobody above; None: cannot be worked out."""

    @property
    def of_others(self) -> int:
        """Bytes of the processes of others, as far as they are known."""
        return sum(process.memory or 0 for process in self.others)

    @property
    def is_busy(self) -> bool:
        """Whether somebody else works here."""
        if any((process.memory or 0) >= BUSY_PROCESS for process in self.others):
            return True
        explained = all(use.listed for use in self.ours)  # else our own contexts are in it
        return explained and (self.unnamed or 0) >= BUSY_UNNAMED

    @property
    def is_empty(self) -> bool:
        """Whether it is known that nobody works here."""
        is_known = self.others_known or self.unnamed is not None
        return is_known and not self.ours and not self.is_busy


def memory_uses(
    devices: Sequence[DeviceSnapshot], workers: Sequence[Worker]
) -> dict[str, MemoryUse]:
    """Who uses the memory of each GPU that answers, by UUID."""
    return {
        device.id: memory_use(device, workers)
        for device in devices
        if device.kind == "gpu" and device.lost is None
    }


def memory_use(device: DeviceSnapshot, workers: Sequence[Worker]) -> MemoryUse:
    """Who uses the memory of the GPU `device`; `workers` are those of all active runs."""
    here = [worker for worker in workers if _is_on(worker, device)]
    listed = {process.pid: process for process in device.processes or ()}
    ours: list[RunUse] = []
    claimed: set[int] = set()
    for worker in here:
        process = listed.get(worker.pid)
        if process is not None and not is_same(process, worker):
            process = None
        if process is not None:
            claimed.add(process.pid)
        ours.append(_use_of(worker, process))
    others = tuple(process for pid, process in listed.items() if pid not in claimed)
    if not all(use.listed for use in ours):
        # The driver counts pids elsewhere (outside our container): a process that the system here
        # does not know may be the worker itself.
        others = tuple(process for process in others if process.started is not None)
    return MemoryUse(
        total=device.memory_total,
        ours=tuple(ours),
        others=others,
        others_known=device.processes is not None or device.asleep,
        reserved=device.memory_reserved,
        free=device.memory_free,
        unnamed=_unnamed(device.memory_used, ours, others),
    )


def is_same(process: GpuProcess, worker: Worker) -> bool:
    """Whether `process`, which has the pid of `worker`, is that worker; never without a start time:
    the system gives pids away again."""
    if process.started is None:
        return False
    return -LONGEST_POOL_START <= process.started - worker.noted <= CLOCK_SLACK


def process_text(process: GpuProcess) -> str:
    """`python of mia`, as far as it is known."""
    name = process.name or f"process {process.pid}"
    return f"{name} of {process.user}" if process.user else name


def _is_on(worker: Worker, device: DeviceSnapshot) -> bool:
    parts = {slice.uuid for slice in device.slices}
    return any(each == device.id or each in parts for each in worker.devices)


def _use_of(worker: Worker, process: GpuProcess | None) -> RunUse:
    """What `worker` has on one of its GPUs, where the driver lists it as `process`, if at all."""
    listed = process is not None
    total = process.memory if process is not None else None
    # A worker reports the sum over its GPUs: with several, that says nothing about one of them.
    alone = len(set(worker.devices)) == 1
    tensors = _bytes(worker.allocated) if alone else None
    pool = _bytes(worker.reserved) if alone else None
    if tensors is None or (total is not None and max(tensors, pool or 0) > total):
        return RunUse(worker, total, listed=listed)  # no report, or it gave memory back since then
    if pool is None:  # TensorFlow does not tell how large its pool is
        return RunUse(worker, total or tensors, tensors, listed=listed)
    cache = max(0, pool - tensors)
    context = None if total is None else max(0, total - tensors - cache)
    return RunUse(worker, total or tensors + cache, tensors, cache, context, listed)


def _unnamed(used: int | None, ours: Sequence[RunUse], others: Sequence[GpuProcess]) -> int | None:
    if used is None or any(use.total is None for use in ours):
        return None
    named = sum(use.total or 0 for use in ours) + sum(each.memory or 0 for each in others)
    return max(0, used - named)


def _bytes(value: float | None) -> int | None:
    return int(value) if value is not None and math.isfinite(value) and value >= 0 else None
