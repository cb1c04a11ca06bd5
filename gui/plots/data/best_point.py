"""The best value of a curve: where it stands, and how it gets its star."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from engine.runs.store_reader import StoredPoints


class BestPoint(NamedTuple):
    """The first point that no other is better than."""

    step: float
    time: float
    """Seconds since the epoch; NaN: not known."""

    value: float


class BestMarker(NamedTuple):
    """A best point on its way to the screen."""

    x: float
    """Place on the horizontal axis."""

    value: float
    colour: str
    text: str
    """What it says to whoever points at it."""


def find_best(known: BestPoint | None, sign: int, points: StoredPoints) -> BestPoint | None:
    """The best of what was `known` and of new points: the lowest finite value where `sign` is -1,
    the highest where it is 1, none where it is 0."""
    if not sign or not len(points.value):
        return known
    merits = np.where(np.isfinite(points.value), sign * points.value, -math.inf)
    top = int(np.argmax(merits))
    if merits[top] <= (-math.inf if known is None else sign * known.value):
        return known
    return BestPoint(float(points.step[top]), float(points.time[top]), float(points.value[top]))
