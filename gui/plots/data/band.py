"""The mean of several curves at each position, with its deviation and the number of curves; or
their median between two quantiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gui.plots.data.growing_pyramid import Array

MAX_POSITIONS = 2000
"""Of a band; if the curves have more, positions are left out evenly."""

_AT_ONCE = 16
"""Lines of one step of the computation."""

_SURPLUS = 10
"""Times as many positions as a band has are kept until all lines are known."""

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

    edges: tuple[Array, Array] | None = None
    """The lower and the upper edge of the area; None: one deviation from the mean. Then there is no
    `deviation`: it is NaN, and `mean` is what lies between the edges, such as the median."""


def band_of(lines: Sequence[tuple[Array, Array]], most: int = MAX_POSITIONS) -> Band:
    """Return the band of `lines`: each is x (ascending) and y, float64 of shape (n,).

    Its positions are those of all lines. Between its points a line is interpolated; before its
    first point, after its last one, and beside a NaN it has no value.
    """
    *_, band = band_steps(lines, most)
    assert band is not None
    return band


def band_steps(
    lines: Sequence[tuple[Array, Array]], most: int = MAX_POSITIONS
) -> Iterator[Band | None]:
    """Compute the band of `lines` in steps of about a millisecond: yield None after each of them,
    and the band at last. See `band_of`."""
    parts = [lines[first : first + _AT_ONCE] for first in range(0, len(lines), _AT_ONCE)]
    places: Array = np.empty(0)
    for part in parts:
        places = np.unique(np.concatenate([places, *(xs for xs, _ in part)]))
        places = _thinned(places, _SURPLUS * most)
        yield None
    places = _thinned(places, most)
    between = (places[:-1] + places[1:]) / 2
    covered = np.zeros(len(between), np.bool_)
    for part in parts:
        covered |= (~np.isnan(_values(part, between))).any(axis=0)
        yield None
    uncovered = np.flatnonzero(~covered)
    places = np.insert(places, uncovered + 1, between[uncovered])
    present: Counts = np.zeros(len(places), np.intp)
    total, squares = np.zeros(len(places)), np.zeros(len(places))
    for part in parts:
        values = _values(part, places)
        present += (~np.isnan(values)).sum(axis=0)
        total = _plus(total, values)
        yield None
    mean: Array = total / np.where(present > 0, present, np.nan)
    for part in parts:
        squares = _plus(squares, _squared_distance(_values(part, places), mean))
        yield None
    deviation: Array = np.sqrt(squares / np.maximum(present - 1, 1))
    yield Band(places, mean, deviation, present, len(lines))


def quantile_band(
    lines: Sequence[tuple[Array, Array]], low: float, high: float, most: int = MAX_POSITIONS
) -> Band:
    """Return the median of `lines`, at least one, between their quantiles `low` and `high`.

    Each is x (ascending) and y, finite float64 of shape (n,). A line counts from its first point
    to its last one.
    """
    places = _thinned(np.unique(np.concatenate([xs for xs, _ in lines])), most)
    values = np.sort(_values(lines, places), axis=0)  # NaN at the end
    present: Counts = (~np.isnan(values)).sum(axis=0)
    bottom, middle, top = (_quantile(values, present, share) for share in (low, 0.5, high))
    nothing: Array = np.full(len(places), np.nan)
    return Band(places, middle, nothing, present, len(lines), (bottom, top))


def _quantile(ordered: Array, present: Counts, share: float) -> Array:
    """Return a quantile of the first `present` values of each column; NaN: it has none."""
    place = share * np.maximum(present - 1, 0)
    below, above = np.floor(place).astype(np.intp), np.ceil(place).astype(np.intp)
    columns, rest = np.arange(ordered.shape[1]), place - np.floor(place)
    lower, upper = ordered[below, columns], ordered[above, columns]
    result: Array = np.where(rest > 0, lower * (1 - rest) + upper * rest, lower)
    return result


@np.errstate(over="ignore", invalid="ignore")
def _plus(total: Array, values: Array) -> Array:
    """Add the values of each line, where it has one."""
    result: Array = total + np.nansum(values, axis=0)
    return result


@np.errstate(over="ignore", invalid="ignore")
def _squared_distance(values: Array, mean: Array) -> Array:
    result: Array = (values - mean) ** 2
    return result


def _thinned(places: Array, most: int) -> Array:
    """Return `places`; of more than `most`, leave some out evenly."""
    if len(places) <= most:
        return places
    return places[np.linspace(0, len(places) - 1, most).round().astype(np.intp)]


def _values(lines: Sequence[tuple[Array, Array]], places: Array) -> Array:
    """Return the value of each line at `places`, shape (lines, places); NaN: it has none."""
    values: Array = np.full((len(lines), len(places)), np.nan)
    for row, (xs, ys) in zip(values, lines, strict=True):
        if len(xs):
            row[:] = np.interp(places, xs, ys, left=np.nan, right=np.nan)
    return values
