"""The moving average behind the smoothing slider, carried on from batch to batch."""

from __future__ import annotations

import math

import numpy as np

from gui.plots.pyramid import Array

_MOST_FADING = 200.0
"""Natural logarithm of how far weights fade in one block: values up to 1e200 stay in a double."""


class MovingAverage:
    """Exponential, debiased: each value counts `keep` times as much as the one after it, and the
    first ones are not drawn towards 0. NaN stays NaN and leaves the average alone."""

    def __init__(self, keep: float) -> None:
        """`keep` is between 0 (no smoothing) and 1 (exclusive)."""
        self._keep = keep
        self._sum = 0.0
        self._weight = 0.0
        self._block = max(1, int(_MOST_FADING / -math.log(keep))) if keep > 0 else 1

    def extend(self, values: Array) -> Array:
        """The average after each of `values`; costs as much as there are values."""
        if not self._keep:
            return values
        result = np.full(len(values), np.nan)
        known = ~np.isnan(values)
        result[known] = self._averages(values[known])
        return result

    def _averages(self, values: Array) -> Array:
        decay = self._keep ** np.arange(1, min(self._block, len(values)) + 1)
        result = np.empty(len(values))
        for start in range(0, len(values), self._block):
            block = values[start : start + self._block]
            fade = decay[: len(block)]
            sums = fade * (self._sum + (1 - self._keep) * np.cumsum(block / fade))
            weights = 1 - fade * (1 - self._weight)
            result[start : start + len(block)] = sums / weights
            self._sum, self._weight = float(sums[-1]), float(weights[-1])
        return result
