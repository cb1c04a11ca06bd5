"""The best point of a curve, and the marker that shows it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from engine.runs.store_reader import StoredPoints


class BestPoint(NamedTuple):
    """The first point with the best value."""

    step: float
    time: float
    """Seconds since the epoch; NaN: unknown."""

    value: float


class BestMarker(NamedTuple):
    """A best point as it is drawn: a star."""

    x: float
    """Position on the horizontal axis."""

    value: float
    colour: str
    text: str
    """The text of its tooltip."""


def find_best(known: BestPoint | None, sign: int, points: StoredPoints) -> BestPoint | None:
    """Return the best point of `known` and the new `points`: the one with the lowest finite value
    if `sign` is -1, with the highest if it is 1; `known` if `sign` is 0."""
    if not sign or not len(points.value):
        return known
    merits = np.where(np.isfinite(points.value), sign * points.value, -math.inf)
    top = int(np.argmax(merits))
    if merits[top] <= (-math.inf if known is None else sign * known.value):
        return known
    return BestPoint(float(points.step[top]), float(points.time[top]), float(points.value[top]))
