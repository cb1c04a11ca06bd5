"""The values that the words of an expression stand for: numbers, durations, days and texts."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from engine.runs.table.grammar import FilterError

_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)(min|[wdhms])")
_SECONDS = {"w": 604_800.0, "d": 86_400.0, "h": 3600.0, "min": 60.0, "m": 60.0, "s": 1.0}
_FACTORS = {"k": 1e3, "M": 1e6, "G": 1e9, "%": 0.01}


def number(text: str) -> float:
    """Return a number such as `1e-3`, `5k` or `90%`."""
    factor = _FACTORS.get(text[-1], 1.0)
    digits = text[:-1] if text[-1] in _FACTORS else text
    return float(digits.replace("_", "")) * factor


def seconds(text: str) -> float:
    """Return the seconds of a duration such as `1h30m` or `-7d`."""
    found = sum(float(each[1]) * _SECONDS[each[2]] for each in _AMOUNT.finditer(text))
    return -found if text[0] == "-" else found


def unquoted(text: str) -> str:
    """Return what stands in quotes."""
    return re.sub(rf"\\([\\{text[0]}])", r"\1", text[1:-1])


def date(text: str, begin: int) -> tuple[float, float]:
    """Return the first and the last moment of a day, or a moment twice. Raises FilterError."""
    try:
        first = datetime.fromisoformat(text)
        last = first if "T" in text else first + timedelta(days=1)
        return first.timestamp(), last.timestamp()
    except (ValueError, OverflowError):
        raise FilterError(f"{text} is no date.", begin, begin + len(text)) from None


def day(now: float, days_before: int = 0) -> tuple[float, float]:
    """Return the first and the last moment of the day of `now`, or of one before it."""
    midnight = datetime.fromtimestamp(now).replace(hour=0, minute=0, second=0, microsecond=0)
    first = midnight - timedelta(days=days_before)
    return first.timestamp(), (first + timedelta(days=1)).timestamp()
