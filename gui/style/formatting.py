"""Numbers as people read them: durations, sizes, clock times, metric values."""

from __future__ import annotations

import time

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def duration(seconds: float) -> str:
    """`01:02:03` for 3723 seconds; days come before: `2 d 01:02:03`."""
    whole = max(0, int(seconds))
    days, rest = divmod(whole, 86_400)
    text = f"{rest // 3600:02}:{rest // 60 % 60:02}:{rest % 60:02}"
    return f"{days} d {text}" if days else text


def size(bytes: float) -> str:
    """`44.8 MiB`; always a binary unit."""
    value = float(bytes)
    for unit in _UNITS[:-1]:
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} {_UNITS[-1]}"


def clock(seconds: float) -> str:
    """Local time of day to the millisecond, such as `14:02:11.093`."""
    return time.strftime("%H:%M:%S", time.localtime(seconds)) + f".{int(seconds % 1 * 1000):03}"


def day(seconds: float) -> str:
    """Local date and time to the minute; today's time alone."""
    then, now = time.localtime(seconds), time.localtime()
    return time.strftime("%H:%M" if then[:3] == now[:3] else "%Y-%m-%d %H:%M", then)


def moment(seconds: float) -> str:
    """Local date and time to the second, such as `2026-01-31 14:02:11`."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def metric(name: str, value: float) -> str:
    """A metric's value: accuracies in percent, everything else in four digits."""
    if "accuracy" in name and 0 <= value <= 1:
        return f"{100 * value:.1f} %"
    return f"{value:.4g}"


def metric_name(series: str) -> str:
    """`accuracy` for `validation/accuracy`, `top 5` for `validation/top_5`. Names that differ stay
    different: only the underscore is read as a space, and a name with a space is quoted."""
    name = series.partition("/")[2]
    return f"“{name}”" if " " in name else name.replace("_", " ")


def capitalized(text: str) -> str:
    """`text` with a capital at its beginning; the others stay as they are."""
    return text[:1].upper() + text[1:]
