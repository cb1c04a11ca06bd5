"""Sorts and groups runs by their columns, with the mean and the deviation of each group."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from engine.runs.run_info import RunInfo
from engine.runs.run_notes import SWEEP_TAG, TRIAL_TAG, number_in
from engine.runs.table.columns import TAGS, Column, Value, is_missing, number_of, place_of_run

_SQUARABLE = 1e150
"""The square of a larger number overflows."""


class Order(NamedTuple):
    """By which column the runs are sorted."""

    column: Column
    descending: bool = False


class Group(NamedTuple):
    """Runs with one value in the column by which the table is grouped."""

    value: Value
    """None: they have none."""

    runs: list[RunInfo]


class Statistics(NamedTuple):
    """Of the finite numbers of a column in some runs."""

    numbers: int
    mean: float
    deviation: float
    """Standard deviation of a sample; 0 of a single number."""

    least: float
    most: float


def sorted_runs(infos: Sequence[RunInfo], order: Order | None) -> list[RunInfo]:
    """Return the runs in another order: numbers as numbers, texts without case, missing last.

    Equal runs keep their order.
    """
    if order is None:
        return list(infos)
    read, there, missing = order.column.read, [], []
    for info in infos:
        value = read(info)
        if is_missing(value):
            missing.append(info)
        else:
            there.append((_key(value), info))
    there.sort(key=lambda pair: pair[0], reverse=order.descending)
    return [info for _, info in there] + missing


def grouped(infos: Sequence[RunInfo], column: Column) -> list[Group]:
    """Return the runs by their value in `column`, sorted by it; those without a value last.

    A run with several tags is in the group of each of them.
    """
    found: dict[Value, list[RunInfo]] = {}
    for info in infos:
        value = column.read(info)
        if column.name == TAGS:
            for tag in _tags(info) or (None,):
                found.setdefault(tag, []).append(info)
        else:
            found.setdefault(None if is_missing(value) else value, []).append(info)
    values = sorted((value for value in found if value is not None), key=_key)
    groups = [Group(value, found[value]) for value in values]
    return groups + ([Group(None, found[None])] if None in found else [])


def _tags(info: RunInfo) -> tuple[str, ...]:
    """Return the tags of a run without the number of its trial, which it shares with no other; that
    of a sweep of another machine names it, because a sweep here has the same number."""
    tags, machine = info.notes.tags, place_of_run(info)[0]
    if number_in(tags, TRIAL_TAG) is not None:
        tags = tuple(tag for tag in tags if not tag.startswith(TRIAL_TAG))
    if machine and number_in(tags, SWEEP_TAG) is not None:
        tags = tuple(f"{machine}:{tag}" if tag.startswith(SWEEP_TAG) else tag for tag in tags)
    return tags


def statistics(infos: Sequence[RunInfo], column: Column) -> Statistics | None:
    """Return the mean and the deviation of a column of numbers; None if no run has a finite one."""
    numbers = [number for _, number in _finite(infos, column)]
    if not numbers:
        return None
    count = len(numbers)
    largest = max(map(abs, numbers))
    scale = largest if largest > _SQUARABLE else 1.0
    scaled = [number / scale for number in numbers]
    mean = math.fsum(scaled) / count
    squares = math.fsum((number - mean) ** 2 for number in scaled)
    mean, deviation = mean * scale, math.sqrt(squares / max(1, count - 1)) * scale
    return Statistics(count, mean, deviation, min(numbers), max(numbers))


def _finite(infos: Sequence[RunInfo], column: Column) -> list[tuple[RunInfo, float]]:
    found = ((info, number_of(column.read(info))) for info in infos)
    return [(info, each) for info, each in found if each is not None and math.isfinite(each)]


def _key(value: Value) -> tuple[int, float, str]:
    """Numbers come before texts."""
    if isinstance(value, (int, float)):
        return 0, float(value), ""
    text = "\n".join(value) if isinstance(value, tuple) else str(value)
    return 1, 0.0, text.casefold()
