"""Points that no store has held, for the plots and figures."""

from __future__ import annotations

import numpy as np

from engine.runs.downsampling import Array, BlockStatistics
from engine.runs.store_reader import StoredPoints


def points_of(
    steps: Array,
    values: Array,
    times: Array | None = None,
    statistics: BlockStatistics | None = None,
) -> StoredPoints:
    """All of a series; without `times` nobody knows when they were."""
    unknown = np.full(len(steps), np.nan)
    return StoredPoints(steps, unknown if times is None else times, values, len(steps), statistics)
