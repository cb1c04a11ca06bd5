"""Names and values of metrics, formatted."""

from __future__ import annotations


def metric(name: str, value: float, *, in_percent: bool = False) -> str:
    """Format the value of a metric: accuracies in percent, others with four digits.

    An accuracy above 1 was logged in percent; with `in_percent`, so was a smaller one.
    """
    if "accuracy" not in name or not 0 <= value <= 100:
        return f"{value:.4g}"
    return f"{value if in_percent or value > 1 else 100 * value:.1f} %"


def step_time(seconds: float) -> str:
    """Return a time in three digits, in milliseconds below one second."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 100 else f"{seconds:,.0f} s"


def capitalized(text: str) -> str:
    """Return `text` with a capital first letter; the other letters stay."""
    return text[:1].upper() + text[1:]
