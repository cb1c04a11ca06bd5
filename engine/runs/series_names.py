"""What a series is called where a person reads it: one name in the window, tables and reports.

Files and filter expressions have the names of the store, such as `validation/accuracy`.
"""

from __future__ import annotations

from engine.runs.run_state import STEP_SECONDS, THROUGHPUT

GROUPS = {"train": "train", "validation": "val"}
"""What the first part of a series of ours is called."""

_OWN = {
    THROUGHPUT: "throughput",
    STEP_SECONDS: "step time",
    "train/learning_rate": "learning rate",
    "train/gradient_norm": "gradient norm",
    "train/skipped_updates": "skipped updates",
}
"""Series that are no metrics: there is one of each in a run."""


def metric_name(series: str) -> str:
    """Return `accuracy` for `validation/accuracy`, `top 5` for `validation/top_5`. Different
    metrics have different names: underscores become spaces, and a name with a space is quoted."""
    name = series.partition("/")[2]
    return f"“{name}”" if " " in name else name.replace("_", " ")


def series_name(series: str) -> str:
    """Return `val accuracy` for `validation/accuracy`, `train loss` for `train/loss`. What a script
    has logged under a name of its own keeps that."""
    group, _, name = series.partition("/")
    if series in _OWN or group not in GROUPS or not name:
        return _OWN.get(series, series)
    return f"{GROUPS[group]} {metric_name(series)}"


def series_title(series: str) -> str:
    """Return the name at the beginning of a line: `Val accuracy`. Names of scripts keep theirs."""
    name = series_name(series)
    return name if name == series else name[:1].upper() + name[1:]


def is_machine_memory(series: str) -> bool:
    """Whether it is what all processes of a machine hold, also those that are not of the run:
    `device/cpu/memory`, or of another machine of a cluster `device/NAME/cpu/memory`."""
    return series.startswith("device/") and series.endswith("/cpu/memory")
