"""The peak memory of a run as a function of its batch, from short runs with small batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from engine.planning import allocations
from engine.planning.allocations import Allocations
from engine.planning.heap_replay import heap_peaks
from engine.planning.results import DeviceEstimate
from engine.planning.short_run import ShortRun
from engine.training.memory_record import CPU, DeviceRecord

SEEN_GROWTH = 64 * 2**20
"""Bytes: what the process of a run needs more than that of another one, beyond chance."""

Pair = tuple[DeviceRecord, DeviceRecord]
"""The records of one rank in the first run and in the last."""


class MemoryModel:
    """What short runs of one spec, with rising batches, have shown about its memory.

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
        """Whether allocators tell what was needed, to the byte: those of GPUs do."""
        return CPU not in self._held

    @cached_property
    def _held(self) -> Mapping[str, float]:
        return self._last.memory

    def peaks(self, batch: int) -> dict[str, float]:
        """Return the predicted peak of each device with this batch, in bytes."""
        growth = self._growth(batch)
        return {device: max(0.0, held + growth[device]) for device, held in self._held.items()}

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

        def fits(count: int) -> bool:
            peaks = self.peaks(count * unit)
            return all(peaks[name] <= available.get(name, peaks[name]) for name in peaks)

        low, high = 0, max(1, most // unit)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if fits(middle) else (low, middle - 1)
        return low * unit

    def growth(self) -> float:
        """Return by how many bytes the steps of the last run need more than those of the first."""
        growths = []
        for device in self._held:
            pairs = self._pairs(device)
            if all(first.allocations and last.allocations for first, last in pairs):
                small, large = (
                    _peaks([r.allocations for r in side]) for side in zip(*pairs, strict=True)
                )
                growths.append(sum(large) - sum(small))
            else:
                growths.append(int(self._held[device] - self._first.memory.get(device, 0.0)))
        return float(max(growths, default=0))

    def _growth(self, batch: int) -> dict[str, float]:
        """Return by how much more each device needs with `batch` than in the last run."""
        found = {}
        for device in self._held:
            pairs = self._pairs(device)
            if all(first.allocations and last.allocations for first, last in pairs):
                peaks_of = heap_peaks if device == CPU else _peaks
                now = peaks_of([last.allocations for _, last in pairs])
                then = peaks_of([self._grown(first, last, batch) for first, last in pairs])
                found[device] = float(sum(then) - sum(now)) + self._elsewhere(device, pairs, batch)
            else:
                found[device] = self._slope(device) * (batch - self.measured)
        return found

    def _elsewhere(self, device: str, pairs: Sequence[Pair], batch: int) -> float:
        """Return by how much more a recipe needs that allocates by itself, such as with NumPy.

        What PyTorch does not tell is only taken to grow with the batch where it is most of what
        has grown: a part of it is what the C library keeps, and does not grow for ever.
        """
        grown = self._held[device] - self._first.memory.get(device, 0.0)
        if device != CPU or grown < SEEN_GROWTH:
            return 0.0
        small = heap_peaks([first.allocations for first, _ in pairs])
        large = heap_peaks([last.allocations for _, last in pairs])
        told = sum(large) - sum(small)
        more = self.measured - self._first.spec.batch_size
        return (grown - told) / more * (batch - self.measured) if told < grown / 2 else 0.0

    def _grown(self, first: DeviceRecord, last: DeviceRecord, batch: int) -> Allocations:
        at, to = self._first.spec.batch_size, self.measured
        if batch == to or at == to:
            return last.allocations
        return allocations.grown(first.allocations, at, last.allocations, to, batch)

    def _slope(self, device: str) -> float:
        """Return the bytes that one more sample takes."""
        more = self.measured - self._first.spec.batch_size
        grown = self._held[device] - self._first.memory.get(device, 0.0)
        return max(0.0, grown / more) if more else 0.0

    def _pairs(self, device: str) -> list[Pair]:
        """Return the records of each rank in the first and in the last run."""
        first, last = self._first.ranks, self._last.ranks
        return [
            (first[rank].devices[device], record.devices[device])
            for rank, record in last.items()
            if device in record.devices and rank in first and device in first[rank].devices
        ]

    def _estimate(self, name: str, total: float, batch: int, available: float) -> DeviceEstimate:
        pairs = self._pairs(name)
        parts = [last for _, last in pairs]
        weights = float(sum(part.weights for part in parts))
        gradients = float(sum(part.gradients for part in parts))
        optimizer = float(sum(part.optimizer for part in parts))
        if all(part.allocations for part in parts):
            steps = [(last, self._grown(first, last, batch)) for first, last in pairs]
            activations = float(sum(_activations(last, step) for last, step in steps))
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
