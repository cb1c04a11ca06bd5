"""Formats byte sizes, durations and times, for the window and the command line."""

from __future__ import annotations

import math
import time

GIB = 2**30
LARGEST_SHARE = 1.0 + 1e-6
"""Of a part of 1, which rounding may lift above it; a larger value was logged in percent."""

UNKNOWN = "–"
_PREFIXES = ("B", "KiB", "MiB", "GiB", "TiB")


def byte_size(size: float) -> str:
    """Return `44.8 MiB` or `512 B`: in the largest binary unit that gives at least 1."""
    value = float(size)
    for unit in _PREFIXES[:-1]:
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} {_PREFIXES[-1]}"


def gib(size: float, digits: int = 1) -> str:
    """Return `40.0 GiB`: always in GiB, so that sizes can be compared."""
    return f"{size / GIB:.{digits}f} GiB"


def duration(seconds: float) -> str:
    """Return `0:12:41` or `26:03:00`; a negative duration has a minus sign."""
    hours, minutes, rest = _parts(abs(seconds))
    sign = "−" if seconds < 0 and (hours or minutes or rest) else ""
    return f"{sign}{hours}:{minutes:02}:{rest:02}"


def short_duration(seconds: float) -> str:
    """Return `0:07` or `1:02:03`: without hours if there are none."""
    hours, minutes, rest = _parts(max(0.0, seconds))
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def steady_duration(seconds: float) -> str:
    """Return `00:12:41` or `2 d 01:02:03`: the width stays the same while the seconds count."""
    hours, minutes, rest = _parts(max(0.0, seconds))
    days, hours = divmod(hours, 24)
    text = f"{hours:02}:{minutes:02}:{rest:02}"
    return f"{days} d {text}" if days else text


def time_of_day(moment: float, *, milliseconds: bool = False) -> str:
    """Return the local time such as `14:02:11` or `14:02:11.093`.

    `moment` counts seconds since the epoch, here and in the functions below.
    """
    text = local_text("%H:%M:%S", moment)
    return f"{text}.{int(moment % 1 * 1000):03}" if milliseconds and text != UNKNOWN else text


def date_and_time(moment: float) -> str:
    """Return the local date and time such as `2026-01-31 14:02:11`."""
    return local_text("%Y-%m-%d %H:%M:%S", moment)


def date_or_time(moment: float) -> str:
    """Return the local date and time to the minute; only the time if `moment` is today."""
    return date_and_minute(moment).removeprefix(time.strftime("%Y-%m-%d "))


def date_and_minute(moment: float) -> str:
    """Return the local date and time such as `2026-01-31 14:02`."""
    return local_text("%Y-%m-%d %H:%M", moment)


def ago(moment: float, now: float | None = None) -> str:
    """Return how long ago `moment` was, such as `2 min ago`; of another day, its local date."""
    now = time.time() if now is None else now
    if not math.isfinite(moment):
        return UNKNOWN
    minutes = int(max(0.0, now - moment) // 60)
    if minutes < 1:
        return "just now"
    if minutes < 60:
        return f"{minutes} min ago"
    if minutes < 24 * 60:
        return f"{minutes // 60} h ago"
    return local_text("%Y-%m-%d", moment)


def local_time(moment: float) -> time.struct_time | None:
    """Return the local date and time; None if no calendar has it, such as one in nanoseconds."""
    try:
        return time.localtime(moment)
    except (OverflowError, ValueError, OSError):
        return None


def local_text(form: str, moment: float) -> str:
    """Return the local date and time in a form of `time.strftime`."""
    local = local_time(moment)
    return time.strftime(form, local) if local else UNKNOWN


def utc_offset(moment: float) -> int:
    """Return by how many seconds the local time is ahead of UTC."""
    local = local_time(moment)
    return local.tm_gmtoff if local else 0


def _parts(seconds: float) -> tuple[int, int, int]:
    """Return hours, minutes and seconds, rounded to the nearest second."""
    minutes, rest = divmod(round(seconds), 60)
    return minutes // 60, minutes % 60, rest
