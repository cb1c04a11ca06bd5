"""Assigns the memory of a GPU to the workers of our runs and to other processes.

Pure functions. The report of a worker counts first, then the driver's list of processes: a process
with the pid and the start time of a worker is this worker. The rest stays unassigned.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

from engine.telemetry.snapshot import DeviceSnapshot, GpuProcess

LONGEST_POOL_START = 30.0
"""The most seconds from the start of a worker's process to its WorkerStarted event."""

CLOCK_SLACK = 5.0
"""Seconds by which a process may appear to start after its event, because the clock was set."""

BUSY_PROCESS = 256 * 2**20
"""Bytes: a process with at least this much memory counts as work, not as a desktop program."""

BUSY_UNASSIGNED = 2**30
"""Bytes: at least this much unassigned memory counts as the work of another user."""


class Worker(NamedTuple):
    """A worker of an active run, with its last report about its memory."""

    run: str
    """Title of its run."""

    rank: int
    pid: int
    start_event_time: float
    """The time of its WorkerStarted event (seconds since the epoch)."""

    devices: tuple[str, ...]
    """As the spec names them."""

    allocated: float | None = None
    """Bytes of its tensors on all its GPUs together; None: no report yet."""

    reserved: float | None = None
    """Bytes of its tensors and of its framework's cache."""

    below: tuple[int, ...] = ()
    """Pids of the command that it runs, and of what that has started: it uses no GPU itself."""


class WorkerMemory(NamedTuple):
    """The memory of one worker on one GPU, in bytes; None: unknown."""

    worker: Worker
    total: int | None
    """The driver's figure, else the sum of the known parts."""

    tensors: int | None = None
    cache: int | None = None
    context: int | None = None
    """Memory of CUDA, its kernels and libraries: the rest outside the framework's pool."""

    listed: bool = False
    """Whether the driver lists the process; if not, its context is part of `unassigned`."""

    @property
    def rest(self) -> int:
        """Bytes of the total outside the known parts."""
        known = sum(part or 0 for part in (self.tensors, self.cache, self.context))
        return max(0, (self.total or 0) - known)


class MemoryUse(NamedTuple):
    """The use of the memory of one GPU, in bytes."""

    total: int | None
    ours: tuple[WorkerMemory, ...]
    others: tuple[GpuProcess, ...]
    """Processes that are not workers of our active runs."""

    others_known: bool
    """Whether the list of processes is known; a powered-down card has none."""

    reserved: int | None
    free: int | None
    unassigned: int | None
    """Used memory outside the processes above; None: unknown."""

    @property
    def others_total(self) -> int:
        """The known bytes of the other processes."""
        return sum(process.memory or 0 for process in self.others)

    @property
    def is_busy(self) -> bool:
        """Whether another user or program works on this GPU."""
        if any((process.memory or 0) >= BUSY_PROCESS for process in self.others):
            return True
        # Without a listed worker, `unassigned` includes our own contexts.
        all_listed = all(use.listed for use in self.ours)
        return all_listed and (self.unassigned or 0) >= BUSY_UNASSIGNED

    @property
    def is_empty(self) -> bool:
        """Whether certainly no program works on this GPU."""
        is_known = self.others_known or self.unassigned is not None
        return is_known and not self.ours and not self.is_busy


def memory_uses(
    devices: Sequence[DeviceSnapshot], workers: Sequence[Worker]
) -> dict[str, MemoryUse]:
    """Return the use of the memory of each GPU that answers, by UUID."""
    return {
        device.id: memory_use(device, workers)
        for device in devices
        if device.kind == "gpu" and device.lost is None
    }


def memory_use(device: DeviceSnapshot, workers: Sequence[Worker]) -> MemoryUse:
    """Return the use of the memory of the GPU `device`; `workers` are those of all active runs."""
    listed = {process.pid: process for process in device.processes or ()}
    ours: list[WorkerMemory] = []
    claimed: set[int] = set()
    for worker in workers:
        if _is_on(worker, device):
            process = listed.get(worker.pid)
            if process is not None and is_same(process, worker):
                claimed.add(process.pid)
            else:
                process = _command_of(worker, listed)
                claimed.update(worker.below)
            ours.append(_use_of(worker, process))
    others = tuple(process for pid, process in listed.items() if pid not in claimed)
    if not all(use.listed for use in ours):
        # In a container the driver reports the pids of the host, so an unknown process may be the
        # worker itself.
        others = tuple(process for process in others if process.started is not None)
    return MemoryUse(
        total=device.memory_total,
        ours=tuple(ours),
        others=others,
        others_known=device.processes is not None or device.asleep,
        reserved=device.memory_reserved,
        free=device.memory_free,
        unassigned=_unassigned(device.memory_used, ours, others),
    )


def is_same(process: GpuProcess, worker: Worker) -> bool:
    """Whether `process`, which has the pid of `worker`, is that worker.

    False without a start time, because the system reuses pids.
    """
    if process.started is None:
        return False
    return -LONGEST_POOL_START <= process.started - worker.start_event_time <= CLOCK_SLACK


def _command_of(worker: Worker, listed: Mapping[int, GpuProcess]) -> GpuProcess | None:
    """Return the processes of the command of `worker` as one; None if the driver lists none."""
    found = [listed[pid] for pid in worker.below if pid in listed]
    if not found:
        return None
    sizes = [process.memory for process in found if process.memory is not None]
    return msgspec.structs.replace(found[0], memory=sum(sizes) if sizes else None)


def process_text(process: GpuProcess) -> str:
    """Return a text such as `python of mia`, from the known name and user."""
    name = process.name or f"process {process.pid}"
    return f"{name} of {process.user}" if process.user else name


def _is_on(worker: Worker, device: DeviceSnapshot) -> bool:
    parts = {slice.uuid for slice in device.slices}
    return any(each == device.id or each in parts for each in worker.devices)


def _use_of(worker: Worker, process: GpuProcess | None) -> WorkerMemory:
    """Return the memory of `worker` on one of its GPUs, which the driver lists as `process`."""
    listed = process is not None
    total = process.memory if process is not None else None
    # A worker reports the sum over its GPUs: with several GPUs, the part of each is unknown.
    alone = len(set(worker.devices)) == 1
    tensors = _bytes(worker.allocated) if alone else None
    pool = _bytes(worker.reserved) if alone else None
    if tensors is None or (total is not None and max(tensors, pool or 0) > total):
        return WorkerMemory(worker, total, listed=listed)  # no report, or an old one
    if pool is None:  # TensorFlow does not report the size of its pool
        return WorkerMemory(worker, total or tensors, tensors, listed=listed)
    cache = max(0, pool - tensors)
    context = None if total is None else max(0, total - tensors - cache)
    return WorkerMemory(worker, total or tensors + cache, tensors, cache, context, listed)


def _unassigned(
    used: int | None, ours: Sequence[WorkerMemory], others: Sequence[GpuProcess]
) -> int | None:
    if used is None or any(use.total is None for use in ours):
        return None
    named = sum(use.total or 0 for use in ours) + sum(each.memory or 0 for each in others)
    return max(0, used - named)


def _bytes(value: float | None) -> int | None:
    return int(value) if value is not None and math.isfinite(value) and value >= 0 else None
