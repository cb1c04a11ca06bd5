"""Measures what a step waits for: the exchange between ranks, copies to GPUs, sample loading."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing
from itertools import count
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.tensor import DTensor

from engine.pytorch.devices import gpu_module, is_gpu
from engine.pytorch.parallel import Rank
from engine.pytorch.samples.batch_sharder import LocalBatch, Sharder
from engine.pytorch.samples.nested import leaves_of
from engine.training.probes.measuring import SIZES, Measurements, repeats_of

COPY_BYTES = 64 * 2**20
LOADER_WORKERS = (0, 1, 2, 4)
ROUNDS, ENOUGH = 3, 1.0
"""So many batches of each loader worker in so many seconds are enough to know its speed."""

STARTED = 0.5
"""Estimated seconds in which loader workers start."""

MakeSharder = Callable[[int], Sharder | None]
"""Returns the training data as so many loader workers would load them; None if that is not so."""


def weights(parameters: list[Any], told: Measurements) -> None:
    """Tell the sum of the weights of this rank: it is the same, to the bit, on equal replicas."""
    if any(isinstance(each, DTensor) for each in parameters):
        return  # each rank has its own part
    with torch.no_grad():
        total = sum(float(each.double().sum()) for each in parameters)
    told.tell_of_rank("weights", total)


def all_reduce(rank: Rank, told: Measurements, seconds: float) -> None:
    """Measure the all-reduce of the gradients' own process group; all ranks call this.

    Rank 0 decides how often a size is repeated, so that all ranks call the same collectives.
    """
    ends_at = time.monotonic() + seconds
    for size in SIZES:
        tensor = torch.zeros(size // 4, device=rank.device)
        once = _reduce_seconds(tensor, 1, rank.device)
        wanted = repeats_of(once, ends_at - time.monotonic())
        repeats, _ = rank.group.agree((wanted if rank.number == 0 else 0, 0))
        if not repeats:
            return
        measured = _reduce_seconds(tensor, repeats, rank.device) / repeats
        told.tell(f"all_reduce/{size}/seconds", measured)


def _reduce_seconds(tensor: torch.Tensor, repeats: int, device: torch.device) -> float:
    _wait_for(device)
    begin = time.perf_counter()
    for _ in range(repeats):
        distributed.all_reduce(tensor)
    _wait_for(device)
    return time.perf_counter() - begin


def copies(rank: Rank, told: Measurements) -> None:
    """Measure copies from the host's memory to each GPU of this rank, and, on rank 0, between all
    GPUs of the run; a CPU has none."""
    if not is_gpu(rank.device):
        return
    pageable = torch.empty(COPY_BYTES, dtype=torch.uint8)
    for name, source in (("pageable", pageable), ("pinned", pageable.pin_memory())):
        target = torch.empty(COPY_BYTES, dtype=torch.uint8, device=rank.device)
        told.tell_of_rank(f"to_gpu/{name}/seconds", _copy_seconds(source, target))
    if rank.number == 0:
        _between_gpus(rank.device, told)
    rank.group.agree((0, 0))  # the others wait for rank 0


def layout(module: nn.Module, told: Measurements) -> None:
    """Count the convolutions of images whose weights lie with their channels first."""
    weights = [each.weight for each in module.modules() if isinstance(each, nn.Conv2d)]
    told.tell("model/channels_first", sum(w.shape[1] > 1 and w.stride(1) != 1 for w in weights))


def _between_gpus(device: torch.device, told: Measurements) -> None:
    module = gpu_module(device)
    gpus = [torch.device(device.type, number) for number in range(module.device_count())]
    for first, source_gpu in enumerate(gpus):
        source = torch.empty(COPY_BYTES, dtype=torch.uint8, device=source_gpu)
        for second, target_gpu in enumerate(gpus):
            if first == second:
                continue
            target = torch.empty(COPY_BYTES, dtype=torch.uint8, device=target_gpu)
            told.tell(f"between_gpus/{first}/{second}/seconds", _copy_seconds(source, target))
            direct = module.can_device_access_peer(first, second)
            told.tell(f"between_gpus/{first}/{second}/direct", float(direct))


def _copy_seconds(source: torch.Tensor, target: torch.Tensor) -> float:
    """Return the seconds of one copy, without the first one."""
    target.copy_(source, non_blocking=True)
    for tensor in (source, target):
        _wait_for(tensor.device)
    begin = time.perf_counter()
    for _ in range(3):
        target.copy_(source, non_blocking=True)
    for tensor in (source, target):
        _wait_for(tensor.device)
    return (time.perf_counter() - begin) / 3


def _wait_for(device: torch.device) -> None:
    if is_gpu(device):
        gpu_module(device).synchronize(device)


def loading(make_sharder: MakeSharder, rank: Rank, told: Measurements, seconds: float) -> None:
    """Measure the seconds in which this rank loads its part of a global batch, by the number of
    loader workers; all ranks call this, and load at the same time, as they do in training.

    `make_sharder` returns the same on all ranks.
    """
    ends_at = time.monotonic() + seconds
    alone = 0.0
    for number, workers in enumerate(LOADER_WORKERS):
        left = ends_at - time.monotonic()
        needed = 2 * alone + STARTED if workers else 0.0
        goes_on, _ = rank.group.agree((int(left > needed) if rank.number == 0 else 0, 0))
        if not goes_on:
            return
        part = max(needed, left / (len(LOADER_WORKERS) - number))
        try:
            if (sharder := make_sharder(workers)) is None:
                return
            with closing(sharder):
                found, size = _load(sharder, workers, part)
        except Exception as error:  # the run trained: what this number of workers meets is a figure
            told.note(f"With {workers} loader workers: {error}")
            found = 0.0
        if found:
            told.tell_of_rank(f"loading/{workers}/seconds", found)
            told.tell_of_rank("loading/batch_bytes", size)
        alone = alone or found


def _load(sharder: Sharder, workers: int, seconds: float) -> tuple[float, float]:
    """Return the seconds for this rank's part of a global batch, and the bytes of the part.

    Workers deliver their batches in bursts, so what is counted are whole rounds of all of them
    after the first batch; the time in which they start is no part of it. 0: no round was done.
    """
    begin = time.monotonic()
    times, size = [begin], 0.0
    for batch in _global_batches(sharder):
        times.append(time.monotonic())
        size = size or float(sum(map(_bytes, batch)))
        taken = times[-1] - begin
        if taken > seconds or (taken > ENOUGH and len(times) > 1 + ROUNDS * max(1, workers)):
            break
    if not workers:
        return (times[-1] - begin) / max(1, len(times) - 1), size
    del times[0]
    rounds = (len(times) - 1) // workers * workers
    return ((times[rounds] - times[0]) / rounds if rounds else 0.0), size


def _global_batches(sharder: Sharder) -> Iterator[list[LocalBatch]]:
    """Yield the local batches of one global batch after the other, over many epochs."""
    for epoch in count():
        for batch in count():
            if sharder.batches and batch >= sharder.batches:
                break
            parts = list(sharder.local_batches(epoch, batch))
            if not parts:
                if not batch:
                    return  # the data are used up
                break
            yield parts


def _bytes(local: LocalBatch) -> int:
    return sum(leaf.nbytes for _, leaf in leaves_of(local.batch) if isinstance(leaf, torch.Tensor))
