"""The mean of several curves at each position, with its deviation and the number of curves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gui.plots.data.growing_pyramid import Array

MAX_POSITIONS = 2000
"""Of a band; if the curves have more, positions are left out evenly."""

Counts = npt.NDArray[np.intp]


class Band(NamedTuple):
    """Arrays of shape (n,) over ascending positions."""

    x: Array
    mean: Array
    """Of the curves that have a value there; NaN: none has one, the line is interrupted."""

    deviation: Array
    """Standard deviation of a sample (n - 1), as in the table of runs; 0 of a single curve."""

    present: Counts
    """How many curves have a value there."""

    curves: int
    """How many curves there are."""


def band_of(lines: Sequence[tuple[Array, Array]], most: int = MAX_POSITIONS) -> Band:
    """Return the band of `lines`: each is x (ascending) and y, float64 of shape (n,).

    Its positions are those of all lines. Between its points a line is interpolated; before its
    first point, after its last one, and beside a NaN it has no value.
    """
    places: Array = np.unique(np.concatenate([np.empty(0), *(xs for xs, _ in lines)]))
    if len(places) > most:
        places = places[np.linspace(0, len(places) - 1, most).round().astype(np.intp)]
    between = (places[:-1] + places[1:]) / 2
    uncovered = np.flatnonzero(~_known(lines, between).any(axis=0))
    places = np.insert(places, uncovered + 1, between[uncovered])
    values = _values(lines, places)
    known = ~np.isnan(values)
    present: Counts = known.sum(axis=0)
    divisor = np.where(present > 0, present, np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        mean: Array = np.where(known, values, 0.0).sum(axis=0) / divisor
        squares = np.where(known, values - mean, 0.0) ** 2
        deviation: Array = np.sqrt(squares.sum(axis=0) / np.maximum(present - 1, 1))
    return Band(places, mean, deviation, present, len(lines))


def _known(lines: Sequence[tuple[Array, Array]], places: Array) -> npt.NDArray[np.bool_]:
    known: npt.NDArray[np.bool_] = ~np.isnan(_values(lines, places))
    return known


def _values(lines: Sequence[tuple[Array, Array]], places: Array) -> Array:
    """Return the value of each line at `places`, shape (lines, places); NaN: it has none."""
    values: Array = np.full((len(lines), len(places)), np.nan)
    for row, (xs, ys) in zip(values, lines, strict=True):
        if len(xs):
            row[:] = np.interp(places, xs, ys, left=np.nan, right=np.nan)
    return values
