"""Growing arrays with coarser and coarser summaries, so that any zoom reads a few thousand
numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
Reducer = Callable[[Array], Array]
"""Reduces float64 rows of shape (n, k) to one value per row, shape (n,). NaN means no value; a row
of NaN gives NaN."""

FACTOR = 4
"""Number of blocks that form one block of the next coarser level."""

_FIRST_CAPACITY = 256


class GrowingArray:
    """A float64 array of shape (n,) that grows in place; its capacity doubles when it is full."""

    def __init__(self) -> None:
        self._storage = np.empty(_FIRST_CAPACITY)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def values(self) -> Array:
        """All values so far, float64 of shape (n,): a view, not a copy."""
        return self._storage[: self._size]

    def extend(self, values: Array) -> None:
        """Append `values`, float64 of shape (m,), in place."""
        size = self._size + len(values)
        if size > len(self._storage):
            storage = np.empty(max(size, 2 * len(self._storage)))
            storage[: self._size] = self.values
            self._storage = storage
        self._storage[self._size : size] = values
        self._size = size


class Columns(NamedTuple):
    """Summaries of consecutive columns of points; all columns have the same number of points."""

    start: int
    """Index of the first column's first point."""

    size: int
    """Points per column."""

    summaries: list[Array]


class Pyramid:
    """Values, and for each reducer their summaries over blocks of 4, 16, 64, ... points."""

    def __init__(self, *reducers: Reducer) -> None:
        self._reducers = reducers
        self._points = GrowingArray()
        self._levels: list[list[GrowingArray]] = []

    def __len__(self) -> int:
        return len(self._points)

    @property
    def values(self) -> Array:
        """All values, float64 of shape (n,): a view, not a copy."""
        return self._points.values

    def extend(self, values: Array) -> None:
        """Append `values`, float64 of shape (m,), in place; the cost is proportional to m."""
        self._points.extend(values)
        below = [self._points] * len(self._reducers)
        number = 0
        while len(below[0]) >= FACTOR:
            if number == len(self._levels):
                self._levels.append([GrowingArray() for _ in self._reducers])
            level = self._levels[number]
            done, full = len(level[0]) * FACTOR, len(below[0]) // FACTOR * FACTOR
            for reduce, source, summary in zip(self._reducers, below, level, strict=True):
                summary.extend(reduce(source.values[done:full].reshape(-1, FACTOR)))
            below = level
            number += 1

    def columns(self, first: int, last: int, min_columns: int) -> Columns:
        """Return between `min_columns` and 2 * `min_columns` columns over the points `first` to
        `last` (exclusive); each summary is float64 of shape (columns,).

        Columns begin at multiples of their size, so that they do not move while points arrive.
        Points after the last complete column are left out. Needs last - first >= FACTOR *
        min_columns.
        """
        number, size = 0, FACTOR
        while (last - first) // (size * FACTOR) >= min_columns:
            number, size = number + 1, size * FACTOR
        group = (last - first) // size // min_columns
        size *= group
        begin, end = first // size * group, last // size * group
        summaries = [
            reduce(summary.values[begin:end].reshape(-1, group))
            for reduce, summary in zip(self._reducers, self._levels[number], strict=True)
        ]
        return Columns(begin // group * size, size, summaries)


def lowest(rows: Array) -> Array:
    """Return the smallest value of each row: (n, k) to (n,), ignoring NaN."""
    smallest: Array = np.fmin.reduce(rows, axis=1)
    return smallest


def highest(rows: Array) -> Array:
    """Return the largest value of each row: (n, k) to (n,), ignoring NaN."""
    largest: Array = np.fmax.reduce(rows, axis=1)
    return largest


def mean(rows: Array) -> Array:
    """Return the mean of each row: (n, k) to (n,), ignoring NaN."""
    plain: Array = rows.sum(axis=1) / rows.shape[1]
    if not np.isnan(plain).any():
        return plain
    known = ~np.isnan(rows)
    count = known.sum(axis=1)
    total = np.where(known, rows, 0.0).sum(axis=1)
    means = np.full(len(rows), np.nan)
    np.divide(total, count, out=means, where=count > 0)
    return means
