"""The peak memory of a run as a function of its batch, from short runs with small batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from engine.planning.memory import allocations
from engine.planning.memory.allocations import Allocations, Growth
from engine.planning.memory.heap_replay import heap_peaks
from engine.planning.results import DeviceEstimate
from engine.planning.short_run import ShortRun
from engine.training.probes.memory_record import CPU, DeviceRecord

SEEN_GROWTH = 64 * 2**20
"""Bytes: what the process of a run needs more than that of another one, beyond chance."""

Pair = tuple[DeviceRecord, DeviceRecord]
"""The records of one rank in the first run and in the last."""


class MemoryModel:
    """What short runs of one spec, with rising batches, have shown about its memory.

    A line through two peaks is no substitute: on CPUs it was 38 % off for a small convolutional
    network, and 13 % for `digits` under FSDP, where this is within 6 %.

    Of PyTorch it is known what a step allocates, block by block: each block is a constant and a
    part that is proportional to the batch. On a CPU, what the C library makes of these blocks is
    replayed. Of other frameworks the peaks are known alone, and taken to be linear.
    """

    def __init__(self, runs: Sequence[ShortRun]) -> None:
        """`runs` have done their steps, with the smallest batch first."""
        self._first, self._last = runs[0], runs[-1]

    @property
    def measured(self) -> int:
        """The largest batch that was measured."""
        return self._last.spec.batch_size

    @property
    def is_exact(self) -> bool:
        """Whether it is known to the byte what a step needs: PyTorch tells it of GPUs."""
        return all(device != CPU and self._told(device) for device in self._held)

    @property
    def _held(self) -> Mapping[str, float]:
        return self._last.memory

    def peaks(self, batch: int) -> dict[str, float]:
        """Return the predicted peak of each device with this batch, in bytes."""
        return self._peaks(batch, replays=True)

    def _peaks(self, batch: int, *, replays: bool) -> dict[str, float]:
        """See `peaks`. Without `replays`, the heap is as large as the tensors: that is quicker."""
        return {
            device: max(0.0, held + self._growth(device, batch, replays=replays))
            for device, held in self._held.items()
        }

    def devices(self, batch: int, available: Mapping[str, float]) -> tuple[DeviceEstimate, ...]:
        """Return the predicted peaks with this batch, by what holds them."""
        peaks = self.peaks(batch)
        return tuple(
            self._estimate(device, peaks[device], batch, available.get(device, 0.0))
            for device in peaks
        )

    def largest(self, available: Mapping[str, float], unit: int, most: int) -> int:
        """Return the largest multiple of `unit`, `most` at most, that is predicted to fit.

        0: not even the smallest does.
        """

        gaps: dict[str, float] = {}

        def fits(count: int) -> bool:
            quick = self._peaks(count * unit, replays=False)
            return all(
                quick[name] + gaps.get(name, 0.0) <= available.get(name, quick[name])
                for name in quick
            )

        found = 0
        for _ in range(2):  # what a heap needs beside its blocks is known at one size, then nearer
            low, high = 0, max(1, most // unit)
            while low < high:
                middle = (low + high + 1) // 2
                low, high = (middle, high) if fits(middle) else (low, middle - 1)
            found = low * unit
            if not found:
                break
            quick, true = self._peaks(found, replays=False), self.peaks(found)
            gaps = {name: true[name] - quick[name] for name in quick}
        return found

    def growth(self) -> float:
        """Return by how many bytes the steps of the last run need more than those of the first."""
        growths = []
        for device in self._held:
            if pairs := self._told(device):
                small = _peaks([first.allocations for first, _ in pairs])
                large = _peaks([last.allocations for _, last in pairs])
                growths.append(float(sum(large) - sum(small)))
            else:
                growths.append(self._seen(device))
        return max(growths, default=0.0)

    def _growth(self, device: str, batch: int, *, replays: bool) -> float:
        """Return by how much more a device needs with `batch` than in the last run."""
        if not (pairs := self._told(device)):
            return self._slope(device) * (batch - self.measured)
        then = self._steps(device, batch)
        if replays and device == CPU:
            more = sum(heap_peaks(then)) - self._heaps[1]
        else:
            more = sum(_peaks(then)) - sum(_peaks([last.allocations for _, last in pairs]))
        return more + self._elsewhere(device) * (batch - self.measured)

    @cached_property
    def _heaps(self) -> tuple[int, int]:
        """The heaps of all workers on CPUs together, in the first run and in the last."""
        pairs = self._told(CPU)
        small = heap_peaks([first.allocations for first, _ in pairs])
        large = heap_peaks([last.allocations for _, last in pairs])
        return sum(small), sum(large)

    def _elsewhere(self, device: str) -> float:
        """Return the bytes for each sample that a recipe allocates by itself, such as with NumPy.

        What PyTorch does not tell is only taken to grow with the batch where it is most of what
        has grown: a part of it is what the C library keeps, and does not grow for ever.
        """
        grown = self._seen(device)
        if device != CPU or grown < SEEN_GROWTH:
            return 0.0
        told = self._heaps[1] - self._heaps[0]
        more = self.measured - self._first.spec.batch_size
        return (grown - told) / more if told < grown / 2 else 0.0

    def _seen(self, device: str) -> float:
        """Return by how much the peak of the last run is above that of the first."""
        return self._held[device] - self._first.memory.get(device, 0.0)

    def _steps(self, device: str, batch: int) -> list[Allocations]:
        """Return what a step of each rank would allocate with `batch`."""
        return [growth.at(batch) for growth in self._growths[device]]

    @cached_property
    def _growths(self) -> Mapping[str, list[Growth]]:
        """What the steps of each rank tell, by device; without devices that tell nothing."""
        at, to = self._first.spec.batch_size, self.measured
        found = {
            device: [
                allocations.growth(first.allocations, at, last.allocations, to)
                for first, last in self._pairs(device)
                if first.allocations and last.allocations
            ]
            for device in self._held
        }
        return {
            device: growths
            for device, growths in found.items()
            if len(growths) == len(self._pairs(device)) and all(g.is_told for g in growths)
        }

    def _slope(self, device: str) -> float:
        """Return the bytes that one more sample takes."""
        more = self.measured - self._first.spec.batch_size
        return max(0.0, self._seen(device) / more) if more else 0.0

    def _told(self, device: str) -> list[Pair]:
        """Return the records of all ranks, if each tells its allocations, and they are those of
        the same operations with both batches; else none."""
        return self._pairs(device) if device in self._growths else []

    def _pairs(self, device: str) -> list[Pair]:
        """Return the records of each rank in the first and in the last run."""
        first, last = self._first.ranks, self._last.ranks
        return [
            (first[rank].devices[device], record.devices[device])
            for rank, record in last.items()
            if device in record.devices and rank in first and device in first[rank].devices
        ]

    def _estimate(self, name: str, total: float, batch: int, available: float) -> DeviceEstimate:
        parts = [last for _, last in self._pairs(name)]
        weights = float(sum(part.weights for part in parts))
        gradients = float(sum(part.gradients for part in parts))
        optimizer = float(sum(part.optimizer for part in parts))
        if pairs := self._told(name):
            steps = zip(pairs, self._steps(name, batch), strict=True)
            activations = float(sum(_activations(last, step) for (_, last), step in steps))
        else:
            activations = self._slope(name) * batch
        activations = min(activations, max(0.0, total - weights - gradients - optimizer))
        return DeviceEstimate(
            device=name,
            weights=weights,
            gradients=gradients,
            optimizer=optimizer,
            activations=activations,
            other=max(0.0, total - weights - gradients - optimizer - activations),
            total=total,
            available=available,
        )


def _peaks(steps: Sequence[Allocations]) -> list[int]:
    return [allocations.peak(step) for step in steps]


def _activations(record: DeviceRecord, step: Allocations) -> int:
    """Return what a step needs beside the gradients, which it allocates too."""
    before = 0  # a GPU also tells that the gradients of the step before are released
    alive: set[int] = set()
    for number, size in step:
        if size > 0:
            alive.add(number)
        elif number not in alive:
            before -= size
    return max(0, allocations.peak(step) + before - record.gradients)


def at_start(run: ShortRun) -> float:
    """Return what all workers held together on the CPU before they made model and data."""
    parts = [r.devices[CPU] for r in run.ranks.values() if CPU in r.devices]
    own = sum(max(0, part.at_start - part.shared) for part in parts)
    return float(own + max((min(part.shared, part.at_start) for part in parts), default=0))
