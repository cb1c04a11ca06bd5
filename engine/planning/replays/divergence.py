"""Finds where two runs begin to differ: the step in their curves, then what differs first in it.

A step is looked into by a replay of both runs. If their weights differ before it, an earlier step
is looked into, until one is found that begins alike and does not end alike.
"""

from __future__ import annotations

import difflib
import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engine import client
from engine.facts.run_facts import read_facts
from engine.facts.settings import Described, setting_rows
from engine.planning.replays.replay import TIMES, CannotReplay, replay
from engine.planning.replays.step_differences import (
    Finding,
    StepOfRun,
    first_difference,
    initial_difference,
    relative,
    sample_difference,
    unmatched,
)
from engine.planning.results import Divergence, Doing, News, Replay, SettingDifference
from engine.runs.run_info import RunInfo
from engine.runs.run_overview import differing_packages
from engine.runs.store.store_reader import RunReader
from engine.spec import catalog, recipe_copy
from engine.spec.device_names import all_on_cpu
from engine.spec.run_spec import RunSpec

_SMOOTH = ("train/loss", "train/gradient_norm")
"""The series that change by rounding no more than what they are made of; an accuracy jumps."""

_ROUNDING = {"fp32": 1e-5, "tf32": 2e-3, "fp16": 5e-3, "bf16": 2e-2}
"""The relative difference that other orders of the same sums make in one step."""

_MOST_ROUNDING = 0.05
_CLEARLY = 10.0
"""How many times what rounding makes a difference is that has another cause, after many steps."""

_MOST_LINES = 60
_MOST_PACKAGES = 20
_HIDDEN = ("name", "recipe", "epochs", "steps")
"""Settings that do not change what a step computes; the lines of recipes are compared."""

Floats = NDArray[np.float64]


class _Curves(NamedTuple):
    """How the recorded values of two runs compare."""

    steps: int
    """The last step that both have."""

    first_bit: int
    """The first step with a value that is not equal bit for bit; 0: there is none."""

    beyond: int
    """The first step with a loss or gradient norm that differs beyond rounding; 0: none."""

    text: str
    losses: dict[int, tuple[float, float]]
    only_evaluation: str
    """The first series of evaluations that differs; empty: there is none."""


def diverge(
    first: str,
    second: str,
    tell: Callable[[News], None] = lambda news: None,
    is_cancelled: Callable[[], bool] = lambda: False,
) -> Divergence:
    """Compare two runs, and look into the steps that may be the first to differ.

    Raises NoSuchRun, CannotReplay, DevicesInUse, Cancelled, sqlite3.Error, OSError.
    """
    begun = time.monotonic()
    infos = client.get_run(first), client.get_run(second)
    one, other = infos
    base = max(_rounding(info.spec) for info in infos)
    curves = _curves(one, other, base)
    search = _Search(infos, curves.losses, tell, is_cancelled)
    found: _Found | None = None
    is_exact = _is_exact(one.spec, other.spec)
    problem = ""
    if curves.first_bit:
        try:
            found = _find(search, curves, base, is_exact=is_exact)
        except CannotReplay as error:
            problem = str(error)
    step, cause, name, answer = _answer(found, curves, problem, is_exact=is_exact)
    return Divergence(
        first=first,
        second=second,
        steps=curves.steps,
        equal=curves.first_bit - 1 if curves.first_bit else curves.steps,
        tolerance=base,
        step=step,
        cause=cause,
        name=name,
        curves=curves.text,
        answer=answer,
        settings=tuple(_settings(one, other)),
        recipe=tuple(_recipe_lines(one, other)),
        notes=tuple(search.notes),
        seconds=time.monotonic() - begun,
    )


class _Found(NamedTuple):
    """The first difference within the steps that were looked into."""

    step: int
    finding: Finding
    is_rounding: bool = False


def _find(search: _Search, curves: _Curves, base: float, *, is_exact: bool) -> _Found | None:
    """Return the first difference; None: the looked into steps have none."""
    found = None
    if is_exact:  # what computes the same computes the same bits
        at = curves.first_bit
        found = search.first(at, (at, at - 1), lambda step: 0.0)
        if found is not None and found.finding.size > base:
            return found
        if not curves.beyond:
            return found and found._replace(is_rounding=True)
    beyond = curves.beyond
    clear = search.first(beyond or 1, (1, beyond, beyond - 1), lambda step: rounding_at(base, step))
    if clear is None:
        return found and found._replace(is_rounding=True)
    limit = _CLEARLY * rounding_at(base, clear.step)
    return clear._replace(is_rounding=clear.step > 1 and clear.finding.size < limit)


class _Search:
    """Looks into steps of two runs, each step once."""

    def __init__(
        self,
        infos: tuple[RunInfo, RunInfo],
        losses: dict[int, tuple[float, float]],
        tell: Callable[[News], None],
        is_cancelled: Callable[[], bool],
    ) -> None:
        self.notes: list[str] = []
        self._infos, self._losses = infos, losses
        self._tell, self._is_cancelled = tell, is_cancelled
        self._seen: dict[int, tuple[StepOfRun, StepOfRun]] = {}

    def first(
        self, end: int, guesses: Sequence[int], tolerance: Callable[[int], float]
    ) -> _Found | None:
        """Return the first difference in the steps up to `end`; it tries `guesses` first."""
        low, high = 0, end
        """No difference up to step `low`; there is one in step `high`, or before it."""

        waiting = [step for step in dict.fromkeys(guesses) if step > 0]
        found: _Found | None = None
        while low < high:
            step = waiting.pop(0) if waiting else (low + high + 1) // 2
            if not low < step <= high:
                continue
            one, other = self._step(step)
            limit = tolerance(step)
            before = initial_difference(one, other, limit, is_trained=step > 1)
            if before is not None and step > 1:
                high, found = step - 1, _Found(step, before._replace(cause="between"))
                continue
            finding = first_difference(one, other, limit)
            if before is not None:
                samples = sample_difference(one, other, limit)
                both = [samples, before] if samples else [before]
                text = " ".join(each.text for each in both)
                finding = both[0]._replace(text=text)
            if finding is not None:
                return _Found(step, finding)
            low = step
        return found

    def _step(self, step: int) -> tuple[StepOfRun, StepOfRun]:
        if step not in self._seen:
            one, other = (self._look(info, step, n) for n, info in enumerate(self._infos))
            self._seen[step] = one, other
            self._note(unmatched(one, other))
        return self._seen[step]

    def _look(self, info: RunInfo, step: int, number: int) -> StepOfRun:
        run = f"run {info.id}"

        def tell(news: News) -> None:
            if isinstance(news, Doing):
                self._tell(Doing(f"{run}: {news.text}", news.done, news.of))

        found: Replay = replay(info.id, step, tell, self._is_cancelled)
        if found.inspection is None:
            raise CannotReplay(f"Step {step:,} of {run} was trained again, and not looked into.")
        if found.difference is not None:
            self._note([f"The replay of {run} is not what it has recorded: {found.sentence}"])
        return StepOfRun(run, found.inspection, self._losses.get(step, (math.nan,) * 2)[number])

    def _note(self, notes: Sequence[str]) -> None:
        self.notes.extend(note for note in notes if note not in self.notes)


def rounding_at(base: float, step: int) -> float:
    """Return the relative difference that rounding may have made up to a step: it adds up."""
    return min(base * max(1, step), max(base, _MOST_ROUNDING))


def _rounding(spec: RunSpec) -> float:
    """Return the relative difference that rounding may make in the first step of a run."""
    default = "fp32" if all_on_cpu(spec.devices) else "tf32"
    return _ROUNDING.get(spec.precision, _ROUNDING[default])


def _is_exact(one: RunSpec, other: RunSpec) -> bool:
    """Whether both runs would compute the same bits, if their recipes did the same."""
    names = ("strategy", "precision", "compile", "accumulation", "interpreter", "backend")
    if any(getattr(one, name) != getattr(other, name) for name in names):
        return False
    if len(one.slots) != len(other.slots) or all_on_cpu(one.devices) != all_on_cpu(other.devices):
        return False
    return all(all_on_cpu(each.devices) or each.deterministic for each in (one, other))


# Curves


def _curves(one: RunInfo, other: RunInfo, base: float) -> _Curves:
    with RunReader(one.folder) as first, RunReader(other.folder) as second:
        counts = first.counts(), second.counts()
        shared = [name for name in counts[0] if name in counts[1] and name not in TIMES]
        trained = [name for name in shared if name.startswith("train/")]
        if "train/loss" not in trained:
            lacking = one if "train/loss" not in counts[0] else other
            raise CannotReplay(
                f"Run {lacking.id} has recorded no step: there is nothing to compare."
            )
        ends, first_bit, beyond, losses = [0, 0], 0, 0, dict[int, tuple[float, float]]()
        for series in trained:
            a, b = (reader.points_after(series, 0) for reader in (first, second))
            steps, at, there = np.intersect1d(a.step, b.step, return_indices=True)
            x, y = a.value[at], b.value[there]
            if series == "train/loss":
                ends = [int(points.step[-1]) for points in (a, b)]
                pairs = zip(x.tolist(), y.tolist(), strict=True)
                losses = dict(zip(steps.astype(int).tolist(), pairs, strict=True))
            first_bit = _earlier(first_bit, steps, x.view(np.int64) != y.view(np.int64))
            if series in _SMOOTH:
                beyond = _earlier(beyond, steps, _is_beyond(steps, x, y, base))
        evaluation = _first_evaluation(first, second, shared) if not first_bit else ""
    last = min(ends)
    text = _curve_text(first_bit, beyond, last, losses, base)
    if ends[0] != ends[1]:
        text += f" Run {one.id} has {ends[0]:,} steps, and run {other.id} {ends[1]:,}."
    return _Curves(last, first_bit, beyond, text, losses, evaluation)


def _earlier(known: int, steps: Floats, differs: NDArray[np.bool_]) -> int:
    if not differs.any():
        return known
    step = int(steps[int(differs.argmax())])
    return min(known, step) if known else step


def _is_beyond(steps: Floats, x: Floats, y: Floats, base: float) -> NDArray[np.bool_]:
    limits = np.minimum(base * np.maximum(steps, 1), max(base, _MOST_ROUNDING))
    is_finite = np.isfinite(x) & np.isfinite(y)
    with np.errstate(invalid="ignore"):
        far = np.abs(x - y) > limits * np.maximum(np.abs(x), np.abs(y))
    same = (x == y) | (np.isnan(x) & np.isnan(y))
    found: NDArray[np.bool_] = np.where(is_finite, far, ~same)
    return found


def _first_evaluation(first: RunReader, second: RunReader, shared: Sequence[str]) -> str:
    """Return the first series of evaluations that is not equal bit for bit."""
    for series in shared:
        if series.startswith("val/"):
            a, b = (reader.points_after(series, 0).value for reader in (first, second))
            count = min(len(a), len(b))
            if (a[:count].view(np.int64) != b[:count].view(np.int64)).any():
                return series
    return ""


def _curve_text(
    first_bit: int, beyond: int, last: int, losses: dict[int, tuple[float, float]], base: float
) -> str:
    if not first_bit:
        return f"All {last:,} steps are equal bit for bit."
    if first_bit > 1:
        text = f"The runs are equal bit for bit up to step {first_bit - 1:,} of {last:,}"
    else:
        text = f"None of the {last:,} steps is equal bit for bit"
    limit = f"a relative difference of {base:.0e} for each step"
    if not beyond:
        most = max((relative(x, y) for x, y in losses.values()), default=0.0)
        return (
            f"{text}; no loss differs beyond rounding ({limit}): the largest relative difference "
            f"is {most:.1e}."
        )
    x, y = losses.get(beyond, (math.nan, math.nan))
    return (
        f"{text}; beyond rounding ({limit}) they differ from step {beyond:,} on, with the losses "
        f"{x:.6g} and {y:.6g}."
    )


# The answer


def _answer(
    found: _Found | None, curves: _Curves, problem: str, *, is_exact: bool
) -> tuple[int, str, str, str]:
    """Return step, cause, name and sentences; `problem`: why no step was looked into."""
    if not curves.first_bit:
        if curves.only_evaluation:
            return 0, "between", "", (
                f"No difference in training. {curves.only_evaluation} differs: look at what only "
                "an evaluation uses, such as running statistics and the data for validation."
            )  # fmt: skip
        return 0, "", "", "No difference."
    if problem:
        return curves.beyond, "" if curves.beyond else "rounding", "", (
            f"What differs first is not known, because the steps cannot be looked into. {problem}"
        )  # fmt: skip
    if found is None:
        if not curves.beyond and not is_exact:
            return 0, "rounding", "", "No difference beyond rounding."
        if not is_exact:
            return curves.beyond, "rounding", "", (
                "The first step is the same within rounding, and no step was found that makes the "
                f"difference: it has grown up to step {curves.beyond:,}, as rounding does."
            )  # fmt: skip
        return curves.first_bit, "", "", (
            f"The recorded values differ from step {curves.first_bit:,} on, and what can be seen "
            "of the steps until then is the same."
        )  # fmt: skip
    cause, name, text, size = found.finding
    if cause == "between":
        text += " All is the same in the step before it: look at what changes weights in between."
    if not found.is_rounding:
        return found.step, cause, name, f"Step {found.step:,} is the first. {text}"
    if not curves.beyond:
        return 0, "rounding", name, (
            f"No difference beyond rounding. The first bits that differ are in step "
            f"{found.step:,}: {text}"
        )  # fmt: skip
    return found.step, "rounding", name, (
        f"The difference grows from step to step, as rounding does, and no step stands out. The "
        f"first beyond what rounding makes ({size:.1e}) is in step {found.step:,}: {text}"
    )  # fmt: skip


# What the user has changed


def _settings(one: RunInfo, other: RunInfo) -> Iterator[SettingDifference]:
    """Yield the settings, the commit and the packages that differ."""
    for row in setting_rows(_described(other), _described(one)):
        if row.differs_from_other and row.name not in _HIDDEN:
            yield SettingDifference(row.title, row.was or "", row.value)
    facts = [read_facts(info.folder).attempt for info in (one, other)]
    commits = [each.git.commit if each and each.git else "" for each in facts]
    if commits[0] != commits[1]:
        yield SettingDifference("Commit", *commits)
    packages = differing_packages(*facts)
    for name, version, there in packages[:_MOST_PACKAGES]:
        yield SettingDifference(name, version, there)
    if len(packages) > _MOST_PACKAGES:
        yield SettingDifference("more packages", f"{len(packages) - _MOST_PACKAGES:,}", "")


def _described(info: RunInfo) -> Described:
    try:
        return Described(info.spec, recipe_copy.recipe_of_run(info.folder, info.spec))
    except (catalog.UnknownName, OSError, ValueError):
        return Described(info.spec)


def _recipe_lines(one: RunInfo, other: RunInfo) -> Iterator[str]:
    """Yield the lines in which the recipes and their modules differ."""
    codes = [_code(one), _code(other)]
    lines = [
        line
        for name in dict.fromkeys(name for code in codes for name in code)
        for line in difflib.unified_diff(
            codes[0].get(name, []), codes[1].get(name, []), f"run {one.id}: {name}",
            f"run {other.id}: {name}", n=0, lineterm="",
        )
    ]  # fmt: skip
    yield from lines[:_MOST_LINES]
    if len(lines) > _MOST_LINES:
        yield f"... {len(lines) - _MOST_LINES:,} more lines"


def _code(info: RunInfo) -> dict[str, list[str]]:
    """Return the lines of a run's copy of its recipe, and of the modules beside it, by name."""
    if not recipe_copy.has_copy(info.folder):
        return {}
    try:
        found = recipe_copy.read_copy(info.folder)
    except OSError:
        return {}
    files = {"recipe": found.recipe, **found.modules}
    return {name: body.decode(errors="replace").splitlines() for name, body in files.items()}
