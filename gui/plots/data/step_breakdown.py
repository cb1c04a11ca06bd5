"""What the steps of a run spend their time on: the mean of its ranks, as parts that are stacked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.runs.store.stored_points import StoredPoints
from gui.plots.data.growing_pyramid import Array

PARTS = ("compute_share", "communication_share", "data_share")
"""Series of a rank, from the lowest part of the stack to the highest. Together they are 1."""

_COMMUNICATION = PARTS[1]


class Parts(NamedTuple):
    """New points of the stack."""

    points: dict[str, StoredPoints]
    """By part, in percent: its upper edge. A strategy that does not measure its communication has
    no such part."""

    replaces: bool
    """Whether earlier points are to be dropped."""


class StepBreakdown:
    """Collects the parts by rank; the steps are those of the lowest rank."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Drop everything."""
        self._ranks: dict[int, dict[str, list[Array]]] = {}
        """Arrays of shape (3, n): steps, times and values."""

        self._taken = 0
        self._replaces = self._has_news = self._communicates = False

    @property
    def series(self) -> list[str]:
        """The names of the series that the stack is made of."""
        return [f"rank/{rank}/{part}" for rank, parts in self._ranks.items() for part in parts]

    def add(self, rank: int, part: str, points: StoredPoints, *, replace: bool) -> None:
        """Add points of a part, or replace them. Points that stand for blocks count with the means
        of their blocks."""
        values = points.value if points.statistics is None else points.statistics.mean
        found = self._ranks.setdefault(rank, {}).setdefault(part, [])
        if replace:
            found.clear()
            self._replaces = True
        found.append(np.stack((points.step, points.time, values)))
        if part == _COMMUNICATION and not self._communicates and (values > 0).any():
            self._communicates = self._replaces = True
        self._has_news = True

    def take(self) -> Parts | None:
        """Return what is new since the last call; None if nothing is."""
        if not self._has_news:
            return None
        self._has_news = False
        known = {rank: parts for rank, parts in self._ranks.items() if len(parts) == len(PARTS)}
        if not known:
            return None
        joined = {
            rank: {part: np.concatenate(arrays, axis=1) for part, arrays in parts.items()}
            for rank, parts in sorted(known.items())
        }
        for parts in self._ranks.values():
            for arrays in parts.values():
                arrays[:] = [np.concatenate(arrays, axis=1)]
        first = next(iter(joined.values()))
        count = min(array.shape[1] for array in first.values())
        begin = 0 if self._replaces else self._taken
        replaces, self._replaces, self._taken = self._replaces, False, count
        steps, times, _ = first[PARTS[0]][:, begin:count]
        means = {
            part: np.mean([_at(steps, parts[part]) for parts in joined.values()], axis=0)
            for part in PARTS
            if part != _COMMUNICATION or self._communicates
        }
        total = np.sum(list(means.values()), axis=0)
        fits = total > 0  # also not NaN
        edge, stack = np.zeros(int(fits.sum())), {}
        for part, mean in means.items():
            edge = edge + 100 * mean[fits] / total[fits]
            stack[part] = StoredPoints(steps[fits], times[fits], edge, count)
        return Parts(stack, replaces)


def _at(steps: Array, points: Array) -> Array:
    """Return the values at `steps`, between points by interpolation: ranks report at different
    steps."""
    known = points[:, np.isfinite(points[2])]
    if not known.shape[1]:
        return np.full(len(steps), np.nan)
    found: Array = np.interp(steps, known[0], known[2])
    return found
