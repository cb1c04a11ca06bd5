"""Round tick positions and short labels for an axis of seconds: durations, or times of day."""

from __future__ import annotations

import math
import time

from engine.system import units

_DAY = 86_400.0
_SPACINGS = (
    *(1.0, 2.0, 5.0, 10.0, 15.0, 30.0),
    *(60.0 * minutes for minutes in (1, 2, 5, 10, 15, 30)),
    *(3600.0 * hours for hours in (1, 2, 3, 6, 12)),
    *(_DAY * days for days in (1, 2, 7, 14, 28, 91, 182, 364)),
)


def spacing(width: float, most: int) -> float:
    """Return the smallest round number of seconds of which at most `most` fit into `width`."""
    min_spacing = width / max(most, 1)
    if min_spacing < 1:
        decade = 10.0 ** math.floor(math.log10(max(min_spacing, 1e-6)))
        return next(part * decade for part in (1, 2, 5, 10) if part * decade >= min_spacing * 0.999)
    longest = _SPACINGS[-1] * 10 ** math.ceil(math.log10(max(min_spacing / _SPACINGS[-1], 1.0)))
    return next((each for each in _SPACINGS if each >= min_spacing), longest)


def ticks(low: float, high: float, every: float, *, wall: bool) -> list[float]:
    """Return the multiples of `every` between `low` and `high`; with `wall`, counted from
    midnight."""
    shift = units.utc_offset(low) if wall else 0
    first, last = math.ceil((low + shift) / every), math.floor((high + shift) / every)
    return [number * every - shift for number in range(first, last + 1)]


def duration(seconds: float, every: float) -> str:
    """Return `0:12:30`; `0.25 s` where ticks are less than a second apart, `3 d` where they are
    days apart."""
    if every < 1:
        return f"{seconds:.3g} s"
    if every >= _DAY:
        return f"{seconds / _DAY:.0f} d"
    return units.duration(seconds)


def clock(seconds: float, every: float) -> str:
    """Return `14:02` or `14:02:30`; the date where the tick is a midnight."""
    local = units.local_time(seconds)
    if local is None:
        return units.UNKNOWN
    if every >= _DAY or (local.tm_hour, local.tm_min, local.tm_sec) == (0, 0, 0):
        return f"{local.tm_mday} {_MONTHS[local.tm_mon - 1]}"
    if every < 1:
        return time.strftime("%H:%M:%S", local) + f"{seconds % 1:.1f}"[1:]
    return time.strftime("%H:%M:%S" if every < 60 else "%H:%M", local)


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
