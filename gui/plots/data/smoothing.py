"""The moving average behind the smoothing slider, carried on from batch to batch."""

from __future__ import annotations

import math

import numpy as np

from gui.plots.data.growing_pyramid import Array

_MOST_FADING = 200.0
"""Natural logarithm of how far weights fade in one block: values up to 1e200 stay in a double."""

_LONGEST_BLOCK = 4096
_FORGOTTEN = 1e-15
"""A weight that makes no difference to a double."""


class MovingAverage:
    """Exponential, debiased: each value counts `keep` times as much as the one after it, and the
    first ones are not drawn towards 0. NaN stays NaN and leaves the average alone."""

    def __init__(self, keep: float) -> None:
        """`keep` is between 0 (no smoothing) and 1 (exclusive)."""
        self._keep = keep
        self._sum = 0.0
        self._weight = 0.0

    def extend(self, values: Array, size: float = 1.0) -> Array:
        """The average after each of `values`; costs as much as there are values. Each counts as
        `size` equal ones do that follow each other."""
        keep = self._keep**size
        if keep < _FORGOTTEN:
            return self._forget(values)
        known = ~np.isnan(values)
        if known.all():
            return self._averages(values, keep)
        result = np.full(len(values), np.nan)
        result[known] = self._averages(values[known], keep)
        return result

    def _forget(self, values: Array) -> Array:
        """Nothing is left of the past: each value is its own average."""
        known = values[~np.isnan(values)]
        if len(known):
            self._sum, self._weight = float(known[-1]), 1.0
        return values

    def _averages(self, values: Array, keep: float) -> Array:
        """Whole blocks in one go, then the rest as one shorter block."""
        block = min(max(1, int(_MOST_FADING / -math.log(keep))), _LONGEST_BLOCK)
        whole = len(values) // block * block
        result = np.empty(len(values))
        if whole:
            result[:whole] = self._blocks(values[:whole].reshape(-1, block), keep).ravel()
        if whole < len(values):
            result[whole:] = self._blocks(values[None, whole:], keep)[0]
        return result

    def _blocks(self, rows: Array, keep: float) -> Array:
        """The averages in equally long blocks that follow each other, a row each."""
        fade = keep ** np.arange(1, rows.shape[1] + 1)
        sums = np.cumsum(rows / fade, axis=1)
        sums *= (1 - keep) * fade
        # What each block takes over from the one before is all that has to be worked out in turn.
        whole, before = float(fade[-1]), np.empty(len(rows))
        for number, own in enumerate(sums[:, -1].tolist()):
            before[number] = self._sum
            self._sum = own + whole * self._sum
        sums += np.multiply.outer(before, fade)
        faded = (1 - self._weight) * whole ** np.arange(len(rows) + 1.0)
        sums /= 1 - np.multiply.outer(faded[:-1], fade)
        self._weight = 1 - float(faded[-1])
        return sums
