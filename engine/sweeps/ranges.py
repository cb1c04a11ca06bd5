"""The values that a setting may have in a sweep, as a person writes them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import msgspec

from engine.spec.field_info import FieldInfo, Setting
from engine.spec.recipe_file import RecipeInfo
from engine.spec.run_spec import FIELDS

FIXED = frozenset(
    {
        *("queue", "keep_awake", "cold_start", "tensorboard", "tensorboard_folder", "min_machines"),
        *("max_restarts", "hang_minutes", "stop_seconds", "orphan_seconds", "on_disk_full"),
        *("checkpoint_minutes", "checkpoint_steps", "checkpoint_epochs", "checkpoint_best"),
        *("keep_checkpoints", "shared_folder", "early_stopping", "memory_limit_mib"),
    }
)
"""Fields that change nothing of what a run computes, or that all runs have alike."""

_INTERVAL = re.compile(
    r"\s*(?P<low>[^.,]\S*?)\s*\.\.\s*(?P<high>[^.:\s][^:\s]*?)\s*(?P<log>:log)?\s*"
)


class CannotSweep(ValueError):
    """A sweep cannot be as it was asked for; the text is a sentence."""


class UnusableRange(CannotSweep):
    """A range cannot be used."""


class Choices(msgspec.Struct, frozen=True, tag="choices"):
    """Each of these values."""

    values: tuple[Setting, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.values))


class Interval(msgspec.Struct, frozen=True, tag="interval"):
    """Any value from `low` to `high`, both included."""

    low: float
    high: float
    log: bool = False
    """Whether small values are as likely as large ones: by their order of magnitude."""

    whole: bool = False
    """Only whole numbers."""

    def __str__(self) -> str:
        return f"{self.low:g}..{self.high:g}{':log' if self.log else ''}"


Range = Choices | Interval


def sweepable(recipe: RecipeInfo) -> dict[str, FieldInfo]:
    """Return what a sweep of `recipe` may vary, by name: fields of a run, and its own settings.

    A setting of the recipe goes before a field with the same name.
    """
    fields = {name: info for name, info in FIELDS.items() if name not in FIXED}
    return fields | {info.name: info for info in recipe.fields}


def parse_setting(text: str, known: Mapping[str, FieldInfo]) -> tuple[str, Range | Setting]:
    """Return name and range of `learning_rate=1e-4..1e-1:log`, `batch_size=16,32` or `seed=0..4`.

    A single value (`width=64`) is returned as such: all runs have it. Raises UnusableRange.
    """
    name, equals, value = text.partition("=")
    name = name.strip()
    if not equals or not name:
        raise UnusableRange(f"--set takes name=value or name=range, not {text!r}.")
    info = known.get(name)
    if info is None:
        why = "all runs of a sweep have it alike" if name in FIELDS else "no such setting"
        raise UnusableRange(
            f"{name} cannot be in a sweep ({why}). There are: {', '.join(sorted(known))}."
        )
    if found := _INTERVAL.fullmatch(value):
        return name, _interval(info, found["low"], found["high"], log=bool(found["log"]))
    if "," in value:
        values = tuple(_value(info, each) for each in value.split(","))
        if len(set(values)) < len(values):
            raise UnusableRange(f"{name}={value} has a value twice.")
        return name, Choices(values)
    return name, _value(info, value)


def range_problem(name: str, range_: Range) -> str:
    """Return why a range that was read from a file cannot be used; empty if it can."""
    if isinstance(range_, Choices):
        return "" if range_.values else f"{name} has no value."
    low, high = range_.low, range_.high
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        return f"{name}={range_} is no range."
    return f"{name}={range_} begins at or below 0." if range_.log and low <= 0 else ""


def grid_size(ranges: Mapping[str, Range]) -> int:
    """Return how many combinations there are. Raises UnusableRange if they cannot be counted."""
    return math.prod(len(grid_values(name, each)) for name, each in ranges.items())


def grid_values(name: str, range_: Range) -> Sequence[Setting]:
    """Return all values of a range, for a grid. Raises UnusableRange if there are too many."""
    if isinstance(range_, Choices):
        return range_.values
    if not range_.whole or range_.high - range_.low >= _MOST_IN_GRID:
        raise UnusableRange(
            f"A grid needs single values of {name}, with commas between them, not {range_}: or let "
            "the sampler be tpe or random."
        )
    return range(int(range_.low), int(range_.high) + 1)


def grid_point(ranges: Mapping[str, Range], number: int) -> dict[str, Setting]:
    """Return combination `number` of a grid, from 0; the last range varies first."""
    values: dict[str, Setting] = {}
    for name, each in reversed(tuple(ranges.items())):
        choices = grid_values(name, each)
        number, place = divmod(number, len(choices))
        values[name] = choices[place]
    return values


_MOST_IN_GRID = 1000


def _interval(info: FieldInfo, low_text: str, high_text: str, *, log: bool) -> Interval | float:
    if info.type not in ("int", "float"):
        raise UnusableRange(f"{info.name} is no number: name its values, with commas between them.")
    low, high = _value(info, low_text), _value(info, high_text)
    assert not isinstance(low, str)
    assert not isinstance(high, str)
    if low == high:
        return low
    if low > high:
        text = f"{info.name}={low_text}..{high_text} is empty"
        raise UnusableRange(f"{text}: the first must be the smaller.")
    if log and low <= 0:
        raise UnusableRange(f"{info.name}: a logarithmic range begins above 0, not at {low:g}.")
    return Interval(low, high, log, info.type == "int")


def _value(info: FieldInfo, text: str) -> Setting:
    try:
        value = info.parse(text)
    except ValueError as error:
        raise UnusableRange(str(error)) from None
    if problem := info.problem(value):
        raise UnusableRange(problem)
    if isinstance(value, float) and not math.isfinite(value):
        raise UnusableRange(f"{info.name} must be a finite number in a sweep, not {value}.")
    return value
