"""What the steps of a run spend their time on: the mean of its ranks, as parts that are stacked."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from engine.runs.run_state import STEP_SECONDS
from engine.runs.store.stored_points import StoredPoints
from gui.plots.data.growing_pyramid import Array

PARTS = ("compute_share", "communication_share", "data_share")
"""Series of a rank, from the lowest part of the stack to the highest. Together they are 1."""

_COMMUNICATION = PARTS[1]


class Parts(NamedTuple):
    """New points of the stack."""

    points: dict[str, StoredPoints]
    """By part: its upper edge, in milliseconds, or in percent if nobody has recorded the step time.
    A strategy that does not measure its communication has no such part; without any parts, the
    whole is that of `STEP_SECONDS`."""

    replaces: bool
    """Whether earlier points are to be dropped."""


class StepBreakdown:
    """Collects the step time, and its parts by rank. The steps are those of the step time, or else
    those of the lowest rank: steps before the first step time, of an older version, are left
    out."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Drop everything."""
        self._ranks: dict[int, dict[str, list[Array]]] = {}
        """Arrays of shape (3, n): steps, times and values."""

        self._step_time: list[Array] = []
        """The same, in milliseconds."""

        self._taken = 0
        self._replaces = self._has_news = self._communicates = self._has_parts = False

    @property
    def is_timed(self) -> bool:
        """Whether the step time is known, and the stack is in milliseconds."""
        return bool(self._step_time)

    @property
    def series(self) -> list[str]:
        """The names of the series that the stack is made of."""
        parts = [f"rank/{rank}/{part}" for rank, parts in self._ranks.items() for part in parts]
        return [STEP_SECONDS, *parts] if self.is_timed else parts

    def add(self, rank: int, part: str, points: StoredPoints, *, replace: bool) -> None:
        """Add points of a part, or replace them. Points that stand for blocks count with the means
        of their blocks."""
        found = self._ranks.setdefault(rank, {}).setdefault(part, [])
        array = self._added(found, points, replace=replace)
        if part == _COMMUNICATION and not self._communicates and (array[2] > 0).any():
            self._communicates = self._replaces = True

    def add_step_seconds(self, points: StoredPoints, *, replace: bool) -> None:
        """Add points of the step time, or replace them."""
        if not self.is_timed:
            replace = True  # of the percent
        self._added(self._step_time, points.scaled(1000.0), replace=replace)

    def take(self) -> Parts | None:
        """Return what is new since the last call; None if nothing is."""
        if not self._has_news:
            return None
        self._has_news = False
        ranks = [
            {part: _joined(arrays) for part, arrays in parts.items()}
            for _, parts in sorted(self._ranks.items())
            if len(parts) == len(PARTS)
        ]
        if not (ranks or self.is_timed):
            return None
        if ranks and not self._has_parts:
            self._has_parts = self._replaces = True
        whole = self._whole(ranks)
        count = whole.shape[1]
        begin = 0 if self._replaces else self._taken
        replaces, self._replaces, self._taken = self._replaces, False, count
        steps, times, height = whole[:, begin:]
        means = {STEP_SECONDS: np.ones(len(steps))}
        if ranks:
            means = {
                part: np.mean([_at(steps, parts[part]) for parts in ranks], axis=0)
                for part in PARTS
                if part != _COMMUNICATION or self._communicates
            }
        total = np.sum(list(means.values()), axis=0)
        fits = (total > 0) & np.isfinite(height)  # also not NaN
        edge, stack = np.zeros(int(fits.sum())), {}
        for part, mean in means.items():
            edge = edge + height[fits] * mean[fits] / total[fits]
            stack[part] = StoredPoints(steps[fits], times[fits], edge, count)
        return Parts(stack, replaces)

    def _added(self, found: list[Array], points: StoredPoints, *, replace: bool) -> Array:
        """Append points to `found`, in the place of those before if they `replace` them."""
        values = points.value if points.statistics is None else points.statistics.mean
        if replace:
            found.clear()
            self._replaces = True
        array = np.stack((points.step, points.time, values))
        found.append(array)
        self._has_news = True
        return array

    def _whole(self, ranks: list[dict[str, Array]]) -> Array:
        """Return the upper edge of the stack, as far as the parts of the lowest rank are known."""
        if self.is_timed:
            whole = _joined(self._step_time)
        else:
            whole = ranks[0][PARTS[0]].copy()
            whole[2] = 100.0
        if ranks:
            known = min(part[0].max(initial=-np.inf) for part in ranks[0].values())
            whole = whole[:, whole[0] <= known]
        return whole


def _joined(arrays: list[Array]) -> Array:
    """Make one array of `arrays`, in place, and return it."""
    arrays[:] = [np.concatenate(arrays, axis=1)]
    return arrays[0]


def _at(steps: Array, points: Array) -> Array:
    """Return the values at `steps`, between points by interpolation: ranks report at different
    steps."""
    known = points[:, np.isfinite(points[2])]
    if not known.shape[1]:
        return np.full(len(steps), np.nan)
    found: Array = np.interp(steps, known[0], known[2])
    return found
