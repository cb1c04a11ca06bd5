"""The short text of a value, for a cell of the window or of the command line."""

from __future__ import annotations

import math

from engine.runs.table.columns import Kind, Value, number_of
from engine.system import units

NOTHING = "–"
_DIGITS = 5
_SMALL = 1e-3
"""Below this, a number is written with a power: `3e-4`."""


def cell_text(value: Value, kind: Kind) -> str:
    """Return a value as a person reads it; `csv_text` writes it exactly."""
    number = number_of(value)
    if value is None or value == "" or value == ():
        return NOTHING
    if isinstance(value, tuple):
        return ", ".join(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if number is None:
        return " ".join(str(value).split())
    if kind is Kind.DATE:
        return units.date_and_minute(number)
    if kind is Kind.DURATION:
        return units.steady_duration(number)
    return number_text(number)


def number_text(number: float) -> str:
    """Return a number with at most five digits; a whole one exactly."""
    if not math.isfinite(number):
        return str(number)
    if number == int(number) and abs(number) < 1e15:
        return f"{int(number):,}" if abs(number) >= 10_000 else str(int(number))
    if abs(number) < _SMALL:
        text = f"{number:.{_DIGITS - 1}e}"
        mantissa, _, power = text.partition("e")
        return f"{float(mantissa):g}e{int(power)}"
    text = f"{number:.{_DIGITS}g}"
    mantissa, sign, power = text.partition("e")
    return f"{mantissa}e{int(power)}" if sign else text
