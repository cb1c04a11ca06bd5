"""Races strategies: a short run of each, and who was fastest."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from msgspec.structs import replace

from engine import client
from engine.environments.needs import package_of
from engine.environments.registry import default_interpreter
from engine.planning.device_claim import claimed_devices, runs_on
from engine.planning.own_data_folder import own_data_folder
from engine.planning.results import Doing, Entry, News, Race, Raced
from engine.planning.short_run import ShortRun, short_run
from engine.spec import catalog
from engine.spec.device_names import all_on_cpu
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import RunSpec
from engine.spec.strategy import Strategy
from engine.system.cancelled import Cancelled

LEAST_STEPS = 5
"""The first ones are warm-up and are not measured."""

CLOSE = 0.05
"""If the two fastest differ by less, as a share, both run once more, in the opposite order. It is
also the noise of a figure of too few parts to tell its own."""

ROUGH = 0.25
"""Noise from which on a figure is no basis of others."""

BUSY = 0.5
"""Load of each thread of the processor from which it is called busy."""

_TITLES = {"torch": "PyTorch", "tf": "TensorFlow"}


class CannotRace(Exception):
    """What was asked for is no race; the text is a sentence."""


def entrants(
    spec: RunSpec,
    recipe: RecipeInfo,
    strategies: Sequence[Strategy],
    batch_sizes: Sequence[int] = (),
    precisions: Sequence[str] = (),
    counts: Sequence[int] = (),
    default_python: Callable[[str], str] = default_interpreter,
) -> tuple[RunSpec, ...]:
    """Return what a race of `strategies` consists of: `spec` in every combination, each once.

    Also what cannot run: the race says why. Nothing given means the value of `spec`, and for
    `counts` all its devices: then a strategy for one device gets the first one. A count takes the
    first devices of `spec`. A framework that is to use several devices gets one device too, to
    compare with. `default_python` returns the Python that trains the recipes of a framework (a
    package) on the machine of the race. Raises CannotRace.
    """
    available = len(spec.devices)
    if wrong := [count for count in counts if not 1 <= count <= available]:
        raise CannotRace(
            f"A race on {wrong[0]} devices cannot choose them from {available}: name other "
            "devices, or another number."
        )
    found: list[RunSpec] = []
    for strategy in strategies:
        for batch_size in batch_sizes or (spec.batch_size,):
            for precision in precisions or (spec.precision,):
                variant = replace(spec, batch_size=batch_size, precision=precision)
                for count in counts or (available,):
                    devices = spec.devices[:count]
                    if not counts and strategy.problems(devices):
                        one = devices[:1]
                        devices = devices if strategy.problems(one) else one
                    found.append(with_strategy(variant, strategy, devices, default_python))
    found += [each for spec in found for each in _references(spec, recipe, found, default_python)]
    return tuple(each for at, each in enumerate(found) if each not in found[:at])


def race(
    entrants: Sequence[RunSpec],
    *,
    steps: int,
    together: bool = False,
    devices: Sequence[str] = (),
    tell: Callable[[News], None] = lambda _: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Race:
    """Train `steps` steps with each of `entrants` and return what was measured.

    They run one after the other, or with `together` side by side on `devices`, by default those
    that all of them name: each is then moved to some that are free. No run of the data folder is
    made; GPUs are held in its queue. If it is cancelled, what was measured until then is returned.
    Raises CannotRace, DevicesInUse, OSError.
    """
    if steps < LEAST_STEPS:
        raise CannotRace(
            f"A race of {steps} steps shows no speed: say at least {LEAST_STEPS}, of which the "
            "first ones are not measured."
        )
    if not entrants:
        raise CannotRace("Nothing was named to race.")
    devices = devices or tuple(dict.fromkeys(name for each in entrants for name in each.devices))
    begun = time.monotonic()
    measuring = _Measuring(steps, tell, is_cancelled)
    notices = _notices(entrants, devices, together=together)
    is_stopped = False
    try:
        with claimed_devices(devices), own_data_folder("race"):
            measuring.measure(entrants, devices if together else ())
    except Cancelled:
        is_stopped = True
    entries = _compared(measuring.entries())
    return Race(
        entries=entries,
        steps=steps,
        seconds=time.monotonic() - begun,
        notices=(*notices, *_rough_notice(entries, steps)),
        is_stopped=is_stopped,
    )


def with_strategy(
    spec: RunSpec,
    strategy: Strategy,
    devices: tuple[str, ...],
    default_python: Callable[[str], str],
) -> RunSpec:
    """Return `spec` with another strategy, in the Python that trains its framework."""
    own, _, _ = spec.strategy.partition("/")
    is_default = spec.interpreter == default_python(package_of(own))
    other = default_python(package_of(strategy.framework))
    interpreter = other if is_default else spec.interpreter
    return replace(spec, strategy=strategy.name, devices=devices, interpreter=interpreter)


def _references(
    spec: RunSpec,
    recipe: RecipeInfo,
    found: Sequence[RunSpec],
    default_python: Callable[[str], str],
) -> Iterator[RunSpec]:
    """Yield the run on one device that `spec` is compared with, unless `found` has one."""
    if len(spec.devices) == 1 or any(_is_reference(each, spec) for each in found):
        return
    one = spec.devices[:1]
    usable = [
        strategy
        for strategy in catalog.strategies_for(recipe)
        if strategy.framework == _framework(spec) and not strategy.problems(one)
    ]
    by_name = {strategy.short_name: strategy for strategy in usable}
    own = next((each for each in usable if each.name == spec.strategy), None)
    if strategy := by_name.get("single") or own:
        yield with_strategy(spec, strategy, one, default_python)


def _framework(spec: RunSpec) -> str:
    return spec.strategy.partition("/")[0]


def _is_reference(one: RunSpec, spec: RunSpec) -> bool:
    """Whether `one` trains on one device, and does otherwise what `spec` does."""
    return (
        len(one.devices) == 1
        and _framework(one) == _framework(spec)
        and replace(one, strategy=spec.strategy, devices=spec.devices) == spec
    )


def _notices(
    entrants: Sequence[RunSpec], devices: Sequence[str], *, together: bool
) -> tuple[str, ...]:
    found = []
    if all_on_cpu(devices):
        if runs := runs_on(devices):
            who = f"Run {runs[0]} trains" if len(runs) == 1 else f"Runs {', '.join(runs)} train"
            found.append(f"{who} on the same CPU devices: the figures are too low.")
        elif _load() > BUSY * _threads():
            found.append(
                f"The processor was busy when the race began (a load of {_load():.1f} on "
                f"{_threads()} threads): the figures are too low, and another race may give others."
            )
        if together:
            found.append(
                "CPU devices share one processor: side by side, the entries slow each other down."
            )
    for name in dict.fromkeys(each.strategy for each in entrants):
        if not catalog.strategy(name).is_synchronous:
            found.append(
                f"{name} is asynchronous: it does not learn as much from as many samples as the "
                "others."
            )
    return tuple(found)


def _rough_notice(entries: Sequence[Entry], steps: int) -> tuple[str, ...]:
    rough = [each for each in entries if each.noise >= ROUGH]
    if not rough:
        return ()
    worst = max(rough, key=lambda each: each.noise)
    which = f"{len(rough)} entries" if len(rough) > 1 else "one entry"
    return (
        f"The speed of {which} varied a lot ({worst.strategy}: ± {100 * worst.noise:.0f} %), so it "
        f"is in no efficiency and a tie says little: race again with more than {steps} steps.",
    )


def _load() -> float:
    """Return the mean load of the last minute; 0 if the system does not tell."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def _threads() -> int:
    return os.cpu_count() or 1


class _Measured(NamedTuple):
    """An entrant, where it ran, and its short runs; more than one if it was among the fastest."""

    spec: RunSpec
    runs: list[ShortRun]


class _Measuring:
    """A race while it lasts, in the data folder of the moment."""

    def __init__(
        self, steps: int, tell: Callable[[News], None], is_cancelled: Callable[[], bool]
    ) -> None:
        self._steps = steps
        self._tell = tell
        self._is_cancelled = is_cancelled
        self._measured: list[_Measured] = []
        self._done = self._planned = 0

    def entries(self) -> list[Entry]:
        """Return an entry for each entrant that was measured, or cannot run."""
        return [_entry(each) for each in self._measured]

    def measure(self, entrants: Sequence[RunSpec], pool: Sequence[str]) -> None:
        """Measure all, side by side on `pool` unless it is empty. Raises Cancelled."""
        able = []
        for spec in entrants:
            if found := client.check(spec):
                self._add(spec, ShortRun(spec=spec, problem=" ".join(each.text for each in found)))
            else:
                able.append(spec)
        self._planned = len(able)
        able = self._warm_up(able)
        for wave in _waves(able, pool):
            for spec, run in zip(wave, self._side_by_side(wave), strict=True):
                self._add(spec, run)
        self._repeat_the_fastest()

    def _warm_up(self, able: Sequence[RunSpec]) -> list[RunSpec]:
        """Do one step with each framework, and return those that are still to be measured.

        The first run would pay for loading it, and for what the system then has in its caches.
        """
        left = list(able)
        first = {_framework(spec): spec for spec in reversed(able) if not spec.cold_start}
        for framework, spec in reversed(first.items()):
            self._say(f"Loads {_TITLES.get(framework, framework)}.")
            run = short_run(spec, steps=1, is_cancelled=self._is_cancelled)
            if not run.ok:  # it would fail again
                left.remove(spec)
                self._done += 1
                self._add(spec, run)
        return left

    def _side_by_side(self, wave: Sequence[RunSpec]) -> list[ShortRun]:
        names = ", ".join(_name(spec) for spec in wave)
        only = wave[0].strategy if len(wave) == 1 else ""
        self._say(f"Trains {self._steps} steps with {names}.", only)
        with ThreadPoolExecutor(len(wave)) as threads:
            found = list(threads.map(self._run, wave))
        self._done += len(wave)
        return found

    def _run(self, spec: RunSpec) -> ShortRun:
        return short_run(spec, steps=self._steps, is_cancelled=self._is_cancelled)

    def _repeat_the_fastest(self) -> None:
        ranked = sorted(
            (each for each in self._measured if each.runs[0].rates),
            key=lambda each: each.runs[0].samples_per_second,
            reverse=True,
        )
        if len(ranked) < 2:
            return
        best, next_best = ranked[0].runs[0], ranked[1].runs[0]
        if next_best.samples_per_second < (1 - CLOSE) * best.samples_per_second:
            return
        self._planned += 2
        for each in sorted(ranked[:2], key=self._measured.index, reverse=True):
            text = f"Trains once more with {_name(each.spec)}: the two fastest are close."
            self._say(text, each.spec.strategy)
            each.runs.append(self._run(each.spec))
            self._done += 1
            self._tell(Raced(_entry(each)))

    def _add(self, spec: RunSpec, run: ShortRun) -> None:
        self._measured.append(_Measured(spec, [run]))
        self._tell(Raced(_entry(self._measured[-1])))

    def _say(self, text: str, strategy: str = "") -> None:
        self._tell(Doing(text, self._done, self._planned, strategy))


def _name(spec: RunSpec) -> str:
    count = len(spec.devices)
    return f"{spec.strategy} on {count} device{'s' if count > 1 else ''}"


def _waves(able: Sequence[RunSpec], pool: Sequence[str]) -> Iterator[list[RunSpec]]:
    """Yield what runs at one time: one, or as many as `pool` has devices for."""
    left = list(able)
    while left:
        wave, free = [left.pop(0)], list(pool)
        if pool:
            wave, left = _placed([*wave, *left], free)
        yield wave


def _placed(left: Sequence[RunSpec], free: list[str]) -> tuple[list[RunSpec], list[RunSpec]]:
    """Give devices that are `free` to as many as possible; return those, and the others."""
    placed, others = [], []
    for spec in left:
        count = len(spec.devices)
        if count > len(free):
            others.append(spec)
            continue
        placed.append(replace(spec, devices=tuple(free[:count])))
        del free[:count]
    return placed, others


def _entry(measured: _Measured) -> Entry:
    spec, runs = measured
    good = [each for each in runs if each.ok and each.rates]
    rates = [rate for each in good for rate in each.rates]
    first, last = runs[0], (good or runs)[-1]
    problem = first.problem if not good else ""
    if problem and first.where:
        problem += f" ({first.where})"
    if not good and first.ok:
        problem = f"It did {first.steps} steps in {first.seconds:.0f} s: too few to measure."
    joules = [each.joules for each in good if each.joules]
    return Entry(
        strategy=spec.strategy,
        devices=spec.devices,
        batch_size=spec.batch_size,
        precision=spec.precision,
        samples_per_second=statistics.median(rates) if rates else None,
        steps=sum(each.measured_steps for each in good),
        noise=_noise(rates),
        memory={
            device: max(each.memory.get(device, 0.0) for each in runs) for device in last.memory
        },
        first_step_seconds=statistics.median(each.first_step_seconds for each in good or runs),
        joules=statistics.fmean(joules) if joules else None,
        shares=last.shares,
        problem=problem,
        spec=spec,
    )


def _noise(rates: Sequence[float]) -> float:
    if not rates:
        return 0.0
    if len(rates) < 3:
        return CLOSE
    low, middle, high = statistics.quantiles(rates, n=4, method="inclusive")
    return (high - low) / 2 / middle


def _compared(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return `entries`, the fastest first, with what follows from all together."""
    ranked = sorted(entries, key=lambda each: -(each.samples_per_second or 0.0))
    if not ranked or not ranked[0].samples_per_second:
        return tuple(ranked)
    best = ranked[0]
    slowest_best = (1 - best.noise) * ranked[0].samples_per_second
    found = []
    for each in ranked:
        rate = each.samples_per_second
        is_tied = bool(rate) and each is not best and (1 + each.noise) * (rate or 0) >= slowest_best
        found.append(replace(each, is_tied=is_tied, efficiency=_efficiency(each, ranked)))
    return tuple(found)


def _efficiency(entry: Entry, entries: Sequence[Entry]) -> float | None:
    ones = {
        each.spec.strategy: each.samples_per_second
        for each in entries
        if each.samples_per_second and each.noise < ROUGH and _is_reference(each.spec, entry.spec)
    }
    single = ones.get(f"{_framework(entry.spec)}/single") or ones.get(entry.strategy)
    reference = single or max(ones.values(), default=0.0)
    if not reference or not entry.samples_per_second or entry.noise >= ROUGH:
        return None
    return entry.samples_per_second / (len(entry.devices) * reference)
