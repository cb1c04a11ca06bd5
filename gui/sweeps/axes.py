"""The axes of the parallel coordinates: where a value stands, and what is written beside it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from engine.runs.series_names import series_title
from engine.spec.field_info import Setting
from engine.spec.run_spec import FIELDS
from engine.sweeps.ranges import Choices, Range
from engine.sweeps.study import TrialResult
from engine.sweeps.sweep import Sweep

_MOST_TICKS = 7
_LOG_RATIO = 30.0
"""Results that differ by more than this factor stand on a logarithmic axis."""


class Tick(NamedTuple):
    """A label of an axis."""

    place: float
    text: str


class Axis(NamedTuple):
    """One setting of a sweep, or its result. Places count from 0 at the bottom to 1 at the top."""

    name: str
    """Of the setting; empty: it is the result."""

    title: str
    low: float = 0.0
    high: float = 1.0
    is_log: bool = False
    choices: tuple[Setting, ...] = ()
    """If there are any, `low`, `high` and `is_log` do not count."""

    def place(self, value: Setting | None) -> float:
        """Return where `value` stands; NaN: nowhere."""
        if self.choices:
            if value is None or value not in self.choices:
                return math.nan
            return _share(self.choices.index(value), len(self.choices))
        if value is None or isinstance(value, str) or not math.isfinite(value):
            return math.nan
        if self.is_log and value <= 0:
            return math.nan
        low, high = self._scaled(self.low), self._scaled(self.high)
        return min(1.0, max(0.0, (self._scaled(value) - low) / (high - low)))

    def ticks(self) -> list[Tick]:
        """Return the labels, the lowest first."""
        if self.choices:
            step = max(1, math.ceil(len(self.choices) / _MOST_TICKS))
            return [
                Tick(_share(number, len(self.choices)), short(value))
                for number, value in enumerate(self.choices)
                if number % step == 0
            ]
        values = self._decades() if self.is_log else self._steps()
        ends = [self.low, self.high]
        inside = [each for each in values if 0.07 < self.place(each) < 0.93]
        return [Tick(self.place(each), short(each)) for each in sorted([*ends, *inside])]

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self.is_log else value

    def _decades(self) -> list[float]:
        first, last = math.floor(math.log10(self.low)), math.ceil(math.log10(self.high))
        step = max(1, math.ceil((last - first) / _MOST_TICKS))
        return [10.0**power for power in range(first, last + 1, step)]

    def _steps(self) -> list[float]:
        """Return round values between the ends."""
        width = (self.high - self.low) / 4
        if not (math.isfinite(width) and width > 0):
            return []
        base = 10.0 ** math.floor(math.log10(width))
        step = next(each * base for each in (1, 2, 5, 10) if each * base >= width)
        first = math.ceil(self.low / step)
        count = int((self.high - first * step) / step) + 1
        return [(first + number) * step for number in range(min(count, _MOST_TICKS))]


def axes_of(sweep: Sweep, trials: Sequence[TrialResult]) -> list[Axis]:
    """Return an axis for each setting, and the one of the result at the end."""
    axes = [_axis(name, title_of(sweep, name), each) for name, each in sweep.ranges.items()]
    return [*axes, _result_axis(result_title(sweep), [each.value for each in trials])]


def title_of(sweep: Sweep, name: str) -> str:
    """Return what a setting of a sweep is called; settings of recipes keep their names."""
    return name if name in sweep.own_settings else FIELDS[name].title


def result_title(sweep: Sweep) -> str:
    """Return what the result of a trial is called."""
    return series_title(sweep.series(("validation/loss",)))


def short(value: Setting) -> str:
    """Return a value as it is written in tables and beside axes."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _axis(name: str, title: str, range_: Range) -> Axis:
    if not isinstance(range_, Choices):
        return Axis(name, title, range_.low, range_.high, range_.log)
    numbers = [each for each in range_.values if not isinstance(each, str | bool)]
    is_numeric = len(numbers) == len(range_.values)
    return Axis(name, title, choices=tuple(sorted(numbers)) if is_numeric else range_.values)


def _result_axis(title: str, values: Sequence[float | None]) -> Axis:
    known = [each for each in values if each is not None and math.isfinite(each)]
    low, high = min(known, default=0.0), max(known, default=1.0)
    if low == high:
        low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
    return Axis("", title, low, high, is_log=low > 0 and high / low > _LOG_RATIO)


def _share(number: int, count: int) -> float:
    return (number + 0.5) / count if count < 3 else 0.04 + 0.92 * number / (count - 1)
