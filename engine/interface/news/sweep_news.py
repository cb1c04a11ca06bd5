"""Sweeps in messages: only what has changed of each travels, and is put together again here."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from engine.interface.value_encoding import encode, known_spec, without_defaults
from engine.interface.values import Packed, id_of
from engine.sweeps.report import STATES, SweepReport, SweepSummary
from engine.sweeps.study import TRIAL_STATES, TrialResult
from engine.sweeps.sweep import MOST_TRIALS, Sweep

PUSH_BYTES = 64 * 2**10
"""Of trials in one message, about: what is measured of a slow link must not wait behind them."""


MOST_SWEEPS = 2000
"""Sweeps of another machine that are known here."""

_UpToSweeps = msgspec.Meta(max_length=MOST_SWEEPS)
_UpToTrials = msgspec.Meta(max_length=MOST_TRIALS)


class SweepsNews(msgspec.Struct, frozen=True):
    """What is new of the sweeps of a machine: see `SweepsThere`."""

    numbers: Annotated[list[str], _UpToSweeps]
    """All sweeps, newest first."""

    changed: Annotated[dict[str, Packed], _UpToSweeps]
    """The `SweepPart` of each sweep that is new or has changed."""


class SweepPart(msgspec.Struct, frozen=True, omit_defaults=True):
    """What has changed of a sweep."""

    summary: SweepSummary
    count: int = 0
    """Its trials, with those that are still to come."""

    trials: Annotated[list[TrialResult], _UpToTrials] = []
    """Those that have changed."""

    importance: dict[str, float] = {}
    is_whole: bool = False
    """Whether nothing that came before counts any more."""

    sweep: dict[str, Any] | None = None
    """What is not the default in the Sweep; None: as before, or it cannot be read there."""


class SweepParts:
    """Tells what has changed of all sweeps since the last call; for one other machine."""

    def __init__(self) -> None:
        self._told: dict[str, SweepReport] = {}
        """By number: the reports as they are known there by now."""

        self._listed: list[str] | None = None
        self.has_more = False
        """Whether `news` would return more of the same reports."""

    def news(self, reports: Sequence[SweepReport]) -> SweepsNews | None:
        """Return what is new of all sweeps, newest first; None: nothing is.

        Of many trials, it is a part: `news` of the same reports returns the next one.
        """
        numbers = [report.summary.sweep for report in reports]
        self._told = {each: self._told[each] for each in numbers if each in self._told}
        changed: dict[str, Packed] = {}
        left = PUSH_BYTES
        for report in reports:
            before = self._told.get(report.summary.sweep)
            if report is before or left <= 0:
                continue
            part, told = _part(report, before, left)
            self._told[report.summary.sweep] = told
            changed[report.summary.sweep] = packed = encode(part)
            left -= len(packed)
        self.has_more = any(self._told.get(each.summary.sweep) is not each for each in reports)
        if not changed and numbers == self._listed:
            return None
        self._listed = numbers
        return SweepsNews(numbers, changed)


def _part(
    report: SweepReport, before: SweepReport | None, most: int
) -> tuple[SweepPart, SweepReport]:
    """Return what is new since `before`, with about `most` bytes of trials; and what is known there
    afterwards: `report` itself if that is all of it."""
    is_whole = before is None or before.sweep is None or before.sweep != report.sweep
    known = [] if before is None or is_whole else list(before.trials[: len(report.trials)])
    changed: list[TrialResult] = []
    is_all = True
    for place, trial in enumerate(report.trials):
        if place < len(known) and known[place] == trial:
            continue
        if most <= 0:
            is_all = False
            break
        changed.append(trial)
        known[place : place + 1] = [trial]
        most -= len(encode(trial))
    sweep = without_defaults(report.sweep) if report.sweep is not None and is_whole else None
    count = len(report.trials)
    part = SweepPart(report.summary, count, changed, dict(report.importance), is_whole, sweep)
    return part, report if is_all else msgspec.structs.replace(report, trials=tuple(known))


class SweepsThere:
    """The sweeps of a machine, put together from what came of them.

    They and their runs are called `gpus:3` if it is another machine.
    """

    def __init__(self) -> None:
        self._known: dict[str, SweepReport] = {}
        self._reports: dict[str, SweepReport] = {}
        """What is told of each: the last state of which all has come."""

        self.has_all = False
        """Whether all that there was came at least once."""

    def take(self, news: SweepsNews, machine: str) -> list[SweepReport]:
        """Return all sweeps, newest first, after `news` of them.

        A report that has not changed is the same object; one that only a newer version can read
        says so.
        """
        for number, packed in news.changed.items():
            if number.isdecimal():
                self._take(number, packed, machine)
        numbers = [each for each in news.numbers if each in self._known]
        self._known = {each: self._known[each] for each in numbers}
        self._reports = {each: self._reports[each] for each in numbers if each in self._reports}
        self.has_all = self._reports.keys() == set(news.numbers)
        return list(self._reports.values())

    def _take(self, number: str, packed: Packed, machine: str) -> None:
        name, before = id_of(machine, number), self._known.get(number)
        try:
            part = _checked(_decode_part(packed))
            if not part.is_whole and (before is None or before.sweep is None):
                return  # of what could not be read
            report = _joined(before, part, name, machine)
        except (ValueError, RecursionError, OverflowError) as error:
            text = f"Sweep {name} can only be read by the Traindeck of its machine: {error}."
            summary = SweepSummary(sweep=name, state="damaged", problem=text)
            self._known[number] = self._reports[number] = SweepReport(summary)
            return
        self._known[number] = report
        if len(report.trials) >= part.count or number not in self._reports:
            self._reports[number] = report


def _checked(part: SweepPart) -> SweepPart:
    """Return `part`. Raises ValueError if it has what this version cannot show."""
    summary = part.summary
    trials = [*part.trials, summary.best] if summary.best is not None else part.trials
    strange = {summary.state} - STATES | {each.state for each in trials} - TRIAL_STATES
    if strange:
        raise ValueError(f"it has the state {min(strange)}")
    if not all(0 <= each.number < MOST_TRIALS for each in trials) or part.count > MOST_TRIALS:
        raise ValueError("it has more trials than a sweep can have")
    return part


def _joined(before: SweepReport | None, part: SweepPart, name: str, machine: str) -> SweepReport:
    """Return what is known of a sweep after `part`. Raises ValueError."""
    known = () if part.is_whole or before is None else before.trials
    sweep = before.sweep if before is not None and not part.is_whole else None
    if part.sweep is not None:
        base = part.sweep.get("base")
        base = msgspec.to_builtins(known_spec(base if isinstance(base, dict) else {}))
        sweep = msgspec.convert(part.sweep | {"base": base}, Sweep)
    trials = {each.number: each for each in known}
    trials |= {each.number: _named(each, machine) for each in part.trials}
    best = part.summary.best
    summary = msgspec.structs.replace(
        part.summary, sweep=name, best=None if best is None else _named(best, machine)
    )
    whole = tuple(trials[each] for each in sorted(trials) if each < part.count)
    return SweepReport(summary, sweep, whole, part.importance)


def _named(trial: TrialResult, machine: str) -> TrialResult:
    """Return a trial whose run is called as the runs of other machines are. It has none here if
    what came is no number of a run."""
    run = id_of(machine, trial.run) if re.fullmatch("[0-9]+", trial.run) else ""
    return msgspec.structs.replace(trial, run=run)


_decode_part = msgspec.msgpack.Decoder(SweepPart).decode
