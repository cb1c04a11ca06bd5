"""Names and values of metrics, formatted."""

from __future__ import annotations


def metric(name: str, value: float) -> str:
    """Format the value of a metric: accuracies in percent, others with four digits."""
    if "accuracy" in name and 0 <= value <= 1:
        return f"{100 * value:.1f} %"
    return f"{value:.4g}"


def metric_name(series: str) -> str:
    """Return `accuracy` for `validation/accuracy`, `top 5` for `validation/top_5`. Different
    metrics have different names: underscores become spaces, and a name with a space is quoted."""
    name = series.partition("/")[2]
    return f"“{name}”" if " " in name else name.replace("_", " ")


def capitalized(text: str) -> str:
    """Return `text` with a capital first letter; the other letters stay."""
    return text[:1].upper() + text[1:]
