"""Metrics as people read them: their names and values."""

from __future__ import annotations


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
