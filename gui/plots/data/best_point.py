"""The best point of a curve, and the marker that shows it."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from engine.runs.store.stored_points import StoredPoints
from engine.spec.metric_direction import is_better


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
    """Return the best of `known` and the new `points`. `sign` is -1 for the lowest finite value, 1
    for the highest; with 0, return `known`."""
    if not sign or not len(points.value):
        return known
    scores = np.where(np.isfinite(points.value), sign * points.value, -math.inf)
    best = int(np.argmax(scores))
    if not is_better(float(points.value[best]), known and known.value, lowest=sign < 0):
        return known
    return BestPoint(float(points.step[best]), float(points.time[best]), float(points.value[best]))
