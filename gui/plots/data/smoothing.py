"""The moving average of the smoothing slider, computed incrementally."""

from __future__ import annotations

import math

import numpy as np

from gui.plots.data.growing_pyramid import Array

_MAX_LOG_RATIO = 200.0
"""Natural logarithm of the first weight of a block divided by the last: values up to 1e200 then
stay in the range of float64."""

_MAX_BLOCK = 4096
_NEGLIGIBLE = 1e-15
"""A weight that does not change a float64 sum."""


class MovingAverage:
    """The bias-corrected exponential moving average y_n = (1 - k) * sum_i k^(n - i) x_i / (1 -
    k^n), k = `keep`, the correction of Adam (Kingma and Ba 2015, section 3). NaN stays NaN and does
    not change the average."""

    def __init__(self, keep: float) -> None:
        """`keep` is the weight of the past, 0 (no smoothing) to 1 (exclusive)."""
        self._keep = keep
        self._sum = 0.0
        self._weight = 0.0

    def extend(self, values: Array, size: float = 1.0) -> Array:
        """Return the average after each of `values`, float64 of shape (n,), and remember the state;
        the cost is proportional to n. Each value counts like `size` equal values in a row. Does not
        change `values`."""
        keep = self._keep**size
        if keep < _NEGLIGIBLE:
            return self._without_past(values)
        known = ~np.isnan(values)
        if known.all():
            return self._averages(values, keep)
        result = np.full(len(values), np.nan)
        result[known] = self._averages(values[known], keep)
        return result

    def _without_past(self, values: Array) -> Array:
        """Return `values` themselves: the past has no weight."""
        known = values[~np.isnan(values)]
        if len(known):
            self._sum, self._weight = float(known[-1]), 1.0
        return values

    def _averages(self, values: Array, keep: float) -> Array:
        """Compute complete blocks at once, then the rest as a shorter block."""
        block = min(max(1, int(_MAX_LOG_RATIO / -math.log(keep))), _MAX_BLOCK)
        whole = len(values) // block * block
        result = np.empty(len(values))
        if whole:
            result[:whole] = self._blocks(values[:whole].reshape(-1, block), keep).ravel()
        if whole < len(values):
            result[whole:] = self._blocks(values[None, whole:], keep)[0]
        return result

    def _blocks(self, rows: Array, keep: float) -> Array:
        """Compute the averages of consecutive blocks of equal length: `rows` and result have the
        shape (blocks, length)."""
        fade = keep ** np.arange(1, rows.shape[1] + 1)
        sums = np.cumsum(rows / fade, axis=1)
        sums *= (1 - keep) * fade
        # Only the sum that each block takes over from the previous block must be computed in
        # sequence.
        whole, before = float(fade[-1]), np.empty(len(rows))
        for number, own in enumerate(sums[:, -1].tolist()):
            before[number] = self._sum
            self._sum = own + whole * self._sum
        sums += np.multiply.outer(before, fade)
        faded = (1 - self._weight) * whole ** np.arange(len(rows) + 1.0)
        sums /= 1 - np.multiply.outer(faded[:-1], fade)
        self._weight = 1 - float(faded[-1])
        return sums
