"""The moving average behind the smoothing slider, carried on from batch to batch."""

from __future__ import annotations

import math

import numpy as np

from gui.plots.pyramid import Array

_MOST_FADING = 200.0
"""Natural logarithm of how far weights fade in one block: values up to 1e200 stay in a double."""

_LONGEST_BLOCK = 4096


class MovingAverage:
    """Exponential, debiased: each value counts `keep` times as much as the one after it, and the
    first ones are not drawn towards 0. NaN stays NaN and leaves the average alone."""

    def __init__(self, keep: float) -> None:
        """`keep` is between 0 (no smoothing) and 1 (exclusive)."""
        self._keep = keep
        self._sum = 0.0
        self._weight = 0.0
        most = int(_MOST_FADING / -math.log(keep)) if keep > 0 else 1
        self._block = min(max(1, most), _LONGEST_BLOCK)

    def extend(self, values: Array) -> Array:
        """The average after each of `values`; costs as much as there are values."""
        if not self._keep:
            return values
        known = ~np.isnan(values)
        if known.all():
            return self._averages(values)
        result = np.full(len(values), np.nan)
        result[known] = self._averages(values[known])
        return result

    def _averages(self, values: Array) -> Array:
        """Whole blocks in one go, then the rest as one shorter block."""
        whole = len(values) // self._block * self._block
        result = np.empty(len(values))
        if whole:
            result[:whole] = self._blocks(values[:whole].reshape(-1, self._block)).ravel()
        if whole < len(values):
            result[whole:] = self._blocks(values[None, whole:])[0]
        return result

    def _blocks(self, rows: Array) -> Array:
        """The averages in equally long blocks that follow each other, a row each."""
        fade = self._keep ** np.arange(1, rows.shape[1] + 1)
        sums = np.cumsum(rows / fade, axis=1)
        sums *= (1 - self._keep) * fade
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
