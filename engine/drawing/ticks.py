"""Round positions for the ticks of an axis of numbers, and labels that are short and distinct."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

LONGEST = 7
"""Labels with more characters are written as differences from a round number, if that is
shorter."""

_FEW_DIGITS = 3
"""Labels of so few digits would not become shorter."""

_STEPS = (1, 2, 5)
_SUBDIVISIONS = ((1, 2, 3, 4, 5, 6, 7, 8, 9), (1, 2, 5), (1, 3), (1,))
"""Ticks in each decade of a logarithmic axis, from the densest."""

_DECADES = (1, 2, 3, 5, 10, 20, 50, 100, 200)
"""Decades from tick to tick."""

_NARROW = 0.7
"""A logarithmic axis of fewer decades has the ticks of a linear one."""

_EXACT_DIGITS = 12
"""Maximum digits of a label: further digits may be rounding errors."""

_LOWEST_POWER, _HIGHEST_POWER = -323.0, 308.0
"""Logarithms of the smallest and of the largest number."""

_ROUNDING = 1e-6
"""As a part of the distance between ticks: what counts as no difference."""

_GROUPED = (1e4, 1e9)
"""Sizes whose many digits are written in groups of three."""

_GROUPED_DIGITS = 5


class Labels(NamedTuple):
    """The labels of the ticks of one axis."""

    texts: list[str]
    offset: str = ""
    """The number to which each label is added; empty if the labels are the values."""


class _Multiples(NamedTuple):
    """Multiples of `step` times a power of ten. There may be a thousand: they are counted first."""

    step: int
    exponent: int
    counts: range

    def values(self) -> list[float]:
        return [_multiple(count * self.step, self.exponent) for count in self.counts]


def linear(low: float, high: float, most: int) -> list[float]:
    """Return round positions between `low` and `high`: at least 2, and at most `most` if round
    numbers allow it."""
    width = high - low
    if not (width > 0 and math.isfinite(width)):
        return []
    exponent = math.floor(math.log10(width)) - 2
    closer = _Multiples(1, 0, range(0))
    for number in range(12):
        decade, place = divmod(number, len(_STEPS))
        found = _multiples(low, high, _STEPS[place], exponent + decade)
        if len(found.counts) <= most:
            return (found if len(found.counts) > 1 else closer).values()
        closer = found
    return closer.values()


def logarithmic(low: float, high: float, most: int) -> list[float]:
    """Return the same for a logarithmic axis: `low`, `high` and the positions are logarithms to the
    base 10."""
    # A plot whose axis has just become logarithmic still has the range of its values for a moment.
    low, high = max(low, _LOWEST_POWER), min(high, _HIGHEST_POWER)
    if not high > low:
        return []
    found = [] if high - low < _NARROW else _within_decades(low, high, most)
    if len(found) < 2:
        values = linear(10.0**low, 10.0**high, most)
        found = [math.log10(value) for value in values if value > 0]
    return found


def labels(values: Sequence[float], *, may_have_offset: bool = False) -> Labels:
    """Return the labels of the ascending tick `values`: short, and different from each other. With
    `may_have_offset`, labels with many digits are differences from a round number."""
    if len(values) < 2:
        return Labels([number(value) for value in values])
    gaps = [b - a for a, b in pairwise(values)]
    spacings = [min(sides) for sides in zip([*gaps, gaps[-1]], [gaps[0], *gaps], strict=True)]
    if values[0] > 0:  # decades: the smallest are not 0
        spacings = [min(pair) for pair in zip(spacings, values, strict=True)]
    texts = [number(value, spacing) for value, spacing in zip(values, spacings, strict=True)]
    digits = [_digits(abs(value), min(gaps)) for value in (values[0], values[-1])]
    too_long = max(len(text.lstrip("-")) for text in texts) > LONGEST
    if may_have_offset and too_long and min(digits) > _FEW_DIGITS:
        return _from_offset(values, min(gaps))
    return Labels(texts)


@lru_cache(maxsize=4096)
def number(value: float, spacing: float = 0.0) -> str:
    """Format `value` as `0.25`, `40`, `2k`, `1.5M` or `2.5e-5`. If `spacing` is not 0, use enough
    digits to distinguish the value from one that is `spacing` away."""
    size = abs(value)
    if size <= _ROUNDING * spacing:  # 0 with rounding errors
        return "0"
    digits = _digits(size, spacing)
    if digits > _GROUPED_DIGITS and _GROUPED[0] <= size < _GROUPED[1]:
        decimals = max(0, digits - math.floor(math.log10(size)) - 1)
        return f"{value:,.{decimals}f}"
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if 1e12 > size >= limit:
            return f"{value / limit:.{max(digits, 6)}g}{unit}"
    if size < 1e-3 or size >= 1e12:
        mantissa, _, exponent = f"{value:.{max(digits, 3) - 1}e}".partition("e")
        return f"{float(mantissa):.{max(digits, 3)}g}e{int(exponent)}"
    return f"{value:.{max(digits, 4)}g}"


def _from_offset(values: Sequence[float], spacing: float) -> Labels:
    unit = math.ceil(math.log10(values[-1] - values[0]) - _ROUNDING)
    base = math.floor(values[0] / _power(unit) + _ROUNDING) * _power(unit)
    steps = [round((value - base) / spacing) * spacing for value in values]
    signed = ["0" if not step else f"+{number(step, spacing)}" for step in steps]
    return Labels(signed, number(base, _power(unit)))


def _digits(size: float, spacing: float) -> int:
    """Return the number of digits of `size` up to the digit that changes from tick to tick."""
    if spacing <= 0 or size <= _ROUNDING * spacing:
        return 0
    # A computed spacing of 0.00099999 means 0.001.
    changed = math.floor(math.log10(spacing) + _ROUNDING)
    return min(math.floor(math.log10(size)) - changed + 1, _EXACT_DIGITS)


def _within_decades(low: float, high: float, most: int) -> list[float]:
    most = max(most, 2)
    decades = range(math.floor(low), math.ceil(high) + 1)
    every = next((each for each in _DECADES if len(decades) <= each * most), _DECADES[-1])
    for steps in _SUBDIVISIONS if every == 1 else ():
        marks = [decade + math.log10(step) for decade in decades for step in steps]
        found = [mark for mark in marks if low <= mark <= high]
        if len(found) <= most:
            return found
    first = math.ceil(low / every) * every
    return [float(decade) for decade in range(first, math.floor(high) + 1, every)]


def _multiples(low: float, high: float, step: int, exponent: int) -> _Multiples:
    """Return the multiples between `low` and `high`."""
    size = step * _power(exponent)
    if size == 0:
        return _Multiples(step, exponent, range(0))
    first, last = math.ceil(low / size - _ROUNDING), math.floor(high / size + _ROUNDING)
    return _Multiples(step, exponent, range(first, last + 1))


def _multiple(count: int, exponent: int) -> float:
    """Return `count` times a power of ten, rounded once: 0.3 and not 3 * 0.1."""
    return count * _power(exponent) if exponent >= 0 else float(f"{count}e{exponent}")


def _power(exponent: int) -> float:
    return float(f"1e{exponent}")
