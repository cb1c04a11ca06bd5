"""The headline of a plot: one number for all its devices or ranks, in the corner of the plot."""

from __future__ import annotations

import numpy as np

from gui.plots.data.growing_pyramid import Array
from gui.plots.data.series_style import (
    DEVICE_MEMORY,
    DEVICE_POWER,
    DEVICE_TEMPERATURE,
    DEVICE_UTILISATION,
    STEP_TIME_BY_RANK,
    WORKER_MEMORY,
    PlotKind,
    SeriesStyle,
)

_MEAN_PLOTS = (DEVICE_UTILISATION, DEVICE_POWER, STEP_TIME_BY_RANK)
"""Plots whose headline is the mean of the newest values; for the step time, of computing only."""

_COMPUTE = "compute"

_PEAK_PLOTS = (DEVICE_MEMORY, DEVICE_TEMPERATURE, WORKER_MEMORY)
"""Plots whose headline is the highest value so far."""


class Headlines:
    """Keeps the newest or the highest value of each curve."""

    def __init__(self) -> None:
        self._figures: dict[PlotKind, dict[str, float]] = {}

    def clear(self) -> None:
        """Forget all curves."""
        self._figures.clear()

    def update(self, style: SeriesStyle, values: Array, *, replace: bool) -> str:
        """Add the newest `values` of a curve, float64 of shape (n,) in the plot's unit, or
        `replace` its values. Return the plot's headline; empty if the plot has none."""
        kind, name = style.plot, style.curve_name
        figures = self._figures.setdefault(kind, {})
        if replace:
            figures.pop(name, None)
        known = values[np.isfinite(values)]
        if kind in _PEAK_PLOTS:
            if len(known):
                figures[name] = max(float(known.max()), figures.get(name, 0.0))
            if not figures:
                return ""
            peak = f"{max(figures.values()):{kind.value_format}} {kind.unit}"
            return f"{peak} peak"
        if kind not in _MEAN_PLOTS:
            return ""
        if len(known) and (kind is not STEP_TIME_BY_RANK or style.label == _COMPUTE):
            figures[name] = float(known[-1])
        if not figures:
            return ""
        mean = f"{sum(figures.values()) / len(figures):{kind.value_format}} {kind.unit}"
        if kind is STEP_TIME_BY_RANK:
            return f"{mean} compute"
        if len(figures) > 1:
            return f"{mean} mean"
        return mean
