"""How the training loss changes from epoch to epoch, if that is more than its noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from engine.runs.store.stored_points import StoredPoints

    Array = npt.NDArray[np.float64]

MOST_LOSSES = 40_000
"""Losses that are kept."""

FEWEST_LOSSES = 4
"""Of an epoch: what fewer have in common is not known."""

STANDARD_ERRORS = 3.0
"""A change of the mean that is smaller is noise."""

ALARMING_SHARE = 0.02
"""A rise alarms from this share of the first losses on: one near 0 may double for nothing."""

_FIRST = 20
"""Losses at the begin of the run whose mean says how large losses are in it."""


class Trend(NamedTuple):
    """The change of the mean loss from one epoch to the next."""

    change: float
    """0.1 for a rise by 10 %."""

    tone: Literal["good", "", "warning"]


class LossTrend:
    """Keeps the losses of the last two epochs."""

    def __init__(self) -> None:
        self._losses: list[tuple[Array, Array]] = []
        self._first: list[float] = []

    def clear(self) -> None:
        """Forget all losses."""
        self._losses, self._first = [], []

    def add(self, points: StoredPoints, steps_per_epoch: int) -> None:
        """Add new losses; `steps_per_epoch` is 0 if it is not known."""
        import numpy as np

        if not len(points.step):  # after a rewind, a curve may have none left
            return
        statistics = points.statistics
        values = points.value if statistics is None else statistics.mean
        if len(self._first) < _FIRST:
            finite = values[np.isfinite(values)][: _FIRST - len(self._first)]
            self._first += [abs(value) for value in finite.tolist()]
        self._losses.append((points.step, values))
        self._drop_old(steps_per_epoch)

    def trend(self, steps_per_epoch: int) -> Trend | None:
        """Return the change between the last two epochs; None if there is none to speak of."""
        import numpy as np

        size = steps_per_epoch
        if not size or not self._losses:
            return None
        steps = np.concatenate([steps for steps, _ in self._losses])
        values = np.concatenate([values for _, values in self._losses])
        if not len(steps) or steps[-1] < 2 * size:
            return None
        age = steps[-1] - steps
        last, before = values[age < size], values[(age >= size) & (age < 2 * size)]
        if min(len(last), len(before)) < FEWEST_LOSSES:
            return None
        old, new = float(before.mean()), float(last.mean())
        noise = float(np.sqrt(last.var(ddof=1) / len(last) + before.var(ddof=1) / len(before)))
        # Also false if one of them is not finite. Without noise, every change counts.
        if not (old and np.isfinite(new / old) and abs(new - old) > STANDARD_ERRORS * noise):
            return None
        if new <= old:
            return Trend(new / old - 1, "good")
        scale = sum(self._first) / len(self._first)
        return Trend(new / old - 1, "warning" if new - old > ALARMING_SHARE * scale else "")

    def _drop_old(self, size: int) -> None:
        """Keep only the losses of the last two epochs, of `size` steps."""
        import numpy as np

        oldest = self._losses[-1][0][-1] - 2 * size
        while len(self._losses) > 1 and size and self._losses[0][0][-1] <= oldest:
            self._losses.pop(0)
        if sum(len(steps) for steps, _ in self._losses) > MOST_LOSSES:
            # An epoch may have millions of steps: an evenly spaced selection is enough.
            steps = np.concatenate([steps for steps, _ in self._losses])
            values = np.concatenate([values for _, values in self._losses])
            wanted = np.linspace(steps[0], steps[-1], MOST_LOSSES // 2)
            kept = np.unique(np.searchsorted(steps, wanted))
            self._losses = [(steps[kept], values[kept])]
