"""Searches the largest and the fastest batch of a spec, in short runs of all its ranks together."""

from __future__ import annotations

import msgspec

from engine.doctor.finding import Change
from engine.planning.device_claim import DevicesInUse, claimed_devices
from engine.planning.memory.memory_estimate import (
    IsCancelled,
    Tell,
    available_memory,
    measure,
    of_available,
    refusal,
)
from engine.planning.memory.memory_model import MemoryModel, at_start
from engine.planning.own_data_folder import own_data_folder
from engine.planning.results import BatchSearch, Doing, Sized, Tried
from engine.planning.short_run import ShortRun, short_run
from engine.spec import catalog
from engine.spec.device_names import all_on_cpu
from engine.spec.run_spec import RunSpec
from engine.system.cancelled import Cancelled
from engine.system.units import byte_size
from engine.training.probes.memory_record import CPU, ROOM

STEPS = 4
"""Of each trial: the optimizer has its state from the second one on, and the last are timed."""

MULTIPLE = 8
"""Samples of a replica: processors like multiples of it."""

LADDER = 4
"""Smaller batches, each half of the next one, that are tried for their speed."""

MOST_TRIALS = 14
GROWTH = 1.25
"""Of the next batch, after one fits that was predicted to be the largest."""

MOST_SAMPLES = 1 << 20
"""Of a local batch, where the length of the data is not known."""

OUTSIDE_LIMIT = "It held {}, more than the limit."


def search(spec: RunSpec, limit_mib: int, tell: Tell, is_cancelled: IsCancelled) -> BatchSearch:
    """Return the largest and the fastest batch with the strategy, devices and settings of `spec`.

    Each size is tried by fresh workers, all at once. `limit_mib` is the memory of the CPU devices
    together, in MiB; 0: what the machine has free. A search that is cancelled returns what it has
    found.
    """
    found = _Search(spec, limit_mib, tell, is_cancelled)
    try:
        with claimed_devices(spec.devices):  # it fills their memory
            return found.run()
    except DevicesInUse as error:
        return BatchSearch(problem=str(error))
    except Cancelled:
        return found.result("It was stopped.")


class _Search:
    """One search. Sizes are samples of a local batch: one replica computes them at once."""

    def __init__(
        self, spec: RunSpec, limit_mib: int, tell: Tell, is_cancelled: IsCancelled
    ) -> None:
        self._spec = spec
        self._tell, self._is_cancelled = tell, is_cancelled
        self._limit_mib = limit_mib
        self._available: dict[str, float] = {}
        self._tried: dict[int, Tried] = {}
        self._parts = 1
        self._most = 0
        self._accumulation = 1
        self._problem = ""
        """Why nothing can be tried, if that is not memory."""

    def run(self) -> BatchSearch:
        spec = self._spec
        if problem := refusal(spec):
            return BatchSearch(problem=problem)
        self._available = available_memory(spec, self._limit_mib)
        strategy = catalog.strategy(spec.strategy, catalog.recipe_of(spec))
        self._parts = strategy.replicas(spec.slots) * spec.accumulation
        model, first = measure(spec, self._tell, self._is_cancelled)
        if model is None:
            return BatchSearch(problem=f"{first.problem} {first.where}".strip())
        with own_data_folder("batch"):
            if fixed := self._fixed(first):
                return BatchSearch(problem=fixed)
        self._most = self._bound(first)
        predicted = self._predicted(model)
        with own_data_folder("batch", **self._limit(first)):
            if problem := self._find_largest(predicted):
                return self.result(problem)
            self._find_accumulation()
        return self.result("")

    def result(self, problem: str) -> BatchSearch:
        """Return what is known so far."""
        fitting = [each for each in self._tried.values() if each.fits]
        tried = tuple(self._tried[size] for size in sorted(self._tried))
        if not fitting:
            text = "" if problem else "No batch fits, not even the smallest."
            return BatchSearch(tried=tried, problem=problem, text=text)
        largest = max(each.batch_size for each in fitting)
        best = max(fitting, key=lambda each: each.samples_per_second)
        changes = self._changes(largest, best)
        return BatchSearch(
            tried=tried,
            largest=largest,
            fastest=best.batch_size,
            accumulation=self._accumulation,
            text=self._text(largest, best, is_over=not problem),
            problem=problem,
            change=changes[0] if changes else None,
            changes=changes,
        )

    def _fixed(self, run: ShortRun) -> str:
        """Return that the data decide the batch themselves; empty: the spec does."""
        if any("batch size" in text and "is not used" in text for text in run.notices):
            return "The batch_sampler of the DataLoader decides the batch: there is none to search."
        if run.spec.batch_size == self._spec.batch_size and self._is_only_size(run):
            return (
                f"The DataLoader of the recipe has the batch size {run.spec.batch_size} and takes "
                "no other: leave batch_size out of it, and the size of the run is used."
            )
        return ""

    def _is_only_size(self, run: ShortRun) -> bool:
        """Whether no smaller batch works, though memory would allow it."""
        if run.spec.batch_size <= self._parts:
            return False
        smaller = max(self._parts, run.spec.batch_size // 2 // self._parts * self._parts)
        other = self._short_run(smaller, self._spec.accumulation, 1)
        return not other.ok and not other.is_out_of_memory

    def _limit(self, run: ShortRun) -> dict[str, str]:
        """Return the variables that let workers on CPUs fail to allocate more than their share."""
        if not all_on_cpu(self._spec.devices) or not run.ranks:
            return {}
        room = (self._available[CPU] - at_start(run)) / len(run.ranks)
        return {ROOM: str(max(0, int(room)))}

    def _bound(self, run: ShortRun) -> int:
        """Return the largest local batch that the data have samples for."""
        samples = run.steps_per_epoch * run.spec.batch_size
        return max(1, samples // self._parts) if samples else MOST_SAMPLES

    def _predicted(self, model: MemoryModel) -> int:
        size = model.largest(self._available, self._parts, self._most * self._parts)
        return _rounded(max(1, size // self._parts))

    def _find_largest(self, predicted: int) -> str:
        """Try sizes until the largest is known; return a problem that is not about memory."""
        top = min(predicted, self._most)
        ladder = sorted({_rounded(max(1, top >> step)) for step in range(LADDER + 1)})
        low, high = 0, self._most + 1
        for size in ladder:
            if not self._fits(size):
                high = size
                break
            low = size
        while (
            not self._problem
            and len(self._tried) < MOST_TRIALS
            and (size := _between(low, high, self._most))
        ):
            if self._fits(size):
                low = size
            else:
                high = size
        return self._problem

    def _fits(self, size: int) -> bool:
        """Try a local batch on all ranks; return whether it fits."""
        batch = size * self._parts
        self._tell(Doing(f"Tries batch {batch}", len(self._tried)))
        run = self._short_run(batch, self._spec.accumulation, STEPS)
        tried = self._judged(run, batch)
        self._tried[size] = tried
        self._tell(Sized(tried))
        has_fitted = any(each.fits for each in self._tried.values())
        if tried.is_failure and (run.was_killed or not has_fitted):
            self._problem = f"{run.problem} {run.where}".strip()
        return tried.fits

    def _judged(self, run: ShortRun, batch: int) -> Tried:
        problem = run.problem
        limit = self._available.get(CPU, 0.0)
        if run.ok and limit and run.memory.get(CPU, 0.0) > limit:
            problem = OUTSIDE_LIMIT.format(byte_size(run.memory[CPU]))
        return Tried(
            batch_size=batch,
            fits=not problem,
            samples_per_second=0.0 if problem else run.samples_per_second,
            memory=max(run.memory.values(), default=0.0) if run.ok else 0.0,
            problem=problem,
            is_failure=not run.ok and not run.is_out_of_memory,
        )

    def _short_run(self, batch: int, accumulation: int, steps: int) -> ShortRun:
        asked = msgspec.structs.replace(self._spec, batch_size=batch, accumulation=accumulation)
        return short_run(asked, steps=steps, is_cancelled=self._is_cancelled)

    def _find_accumulation(self) -> None:
        """Find the least accumulation with which the batch that was asked for fits; try it."""
        fitting = [size for size, each in self._tried.items() if each.fits]
        asked, now = self._spec.batch_size, self._spec.accumulation
        replicas = self._parts // now
        self._accumulation = now
        if not fitting or asked <= max(fitting) * self._parts:
            return
        most = max(fitting)
        accumulation = -(-asked // (replicas * most))
        while accumulation <= asked // replicas:
            self._tell(Doing(f"Tries accumulation {accumulation}", len(self._tried)))
            run = self._short_run(asked, accumulation, 2)
            if self._judged(run, asked).fits:
                self._accumulation = accumulation
                return
            if not run.is_out_of_memory and not run.ok:
                return
            accumulation *= 2

    def _changes(self, largest: int, best: Tried) -> tuple[Change, ...]:
        spec, found = self._spec, []
        if self._accumulation != spec.accumulation:
            label = f"Keep batch {spec.batch_size}, with accumulation {self._accumulation}"
            found.append(Change(label, {"accumulation": self._accumulation}))
        for size in dict.fromkeys((best.batch_size, largest)):
            if size != spec.batch_size:
                found.append(Change(f"Use batch {size}", {"batch_size": size}))
        return tuple(found)

    def _text(self, largest: int, best: Tried, *, is_over: bool) -> str:
        held = next(t.memory for t in self._tried.values() if t.batch_size == largest)
        bound = min(self._available.values(), default=0.0)
        memory = of_available(held, bound) if bound else byte_size(held)
        end = " All training data are one batch then." if self._is_bound(largest) else ""
        which = "largest batch that fits" if is_over else "largest of those that were tried and fit"
        return (
            f"The {which} is {largest} ({memory}).{end} The fastest is "
            f"{best.batch_size}, with {best.samples_per_second:,.0f} samples/s."
        )

    def _is_bound(self, largest: int) -> bool:
        return largest // self._parts >= _rounded(self._most) and self._most < MOST_SAMPLES


def _rounded(size: int) -> int:
    """Return `size`, or the multiple of MULTIPLE below it."""
    return size if size < MULTIPLE else size // MULTIPLE * MULTIPLE


def _between(low: int, high: int, most: int) -> int:
    """Return the size to try next: between one that fits and one that does not; 0: it is found."""
    if high > most:  # none has failed yet
        more = MULTIPLE if low >= MULTIPLE else 1
        grown = _rounded(min(most, max(low + more, int(low * GROWTH))))
        return grown if grown > low else 0
    middle = _rounded((low + high) // 2)
    return middle if low < middle < high else 0
