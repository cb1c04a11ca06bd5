"""Points as a store returns them, for the tests of plots and figures."""

from __future__ import annotations

import numpy as np

from engine.runs.store.downsampling import Array, BlockStatistics
from engine.runs.store.stored_points import StoredPoints


def stored_points(
    steps: Array,
    values: Array,
    times: Array | None = None,
    statistics: BlockStatistics | None = None,
) -> StoredPoints:
    """Return a whole series; without `times` all times are NaN."""
    unknown = np.full(len(steps), np.nan)
    return StoredPoints(steps, unknown if times is None else times, values, len(steps), statistics)
