"""Whether an accuracy is a part of 1, which plots show in percent, or was logged in percent."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from engine.runs.store.stored_points import StoredPoints
from engine.system.units import LARGEST_SHARE


class ShareScale:
    """Scales the points of accuracies: by 100 until a value of the curve is larger than 1.

    It keeps their points, because that value may come late: then all of them are drawn anew.
    """

    def __init__(self) -> None:
        self._logged_in_percent: set[Hashable] = set()
        self._points: dict[Hashable, list[StoredPoints]] = {}

    def clear(self) -> None:
        """Forget all curves."""
        self._logged_in_percent.clear()
        self._points.clear()

    def remove(self, curve: Hashable) -> None:
        """Forget a curve."""
        self._logged_in_percent.discard(curve)
        self._points.pop(curve, None)

    def scaled(self, curve: Hashable, points: StoredPoints, factor: float) -> StoredPoints:
        """Return `points` of a curve in percent; `factor` is that of a part of 1."""
        return points if curve in self._logged_in_percent else points.scaled(factor)

    def add(
        self, curve: Hashable, points: StoredPoints, factor: float, *, replace: bool
    ) -> tuple[Sequence[StoredPoints], bool]:
        """Return the scaled points to draw, and whether they replace those of the curve."""
        kept = self._points.setdefault(curve, [])
        if replace:
            kept.clear()
        kept.append(points)
        finite = points.value[np.isfinite(points.value)]
        is_percent = len(finite) > 0 and finite.max() > LARGEST_SHARE
        if curve not in self._logged_in_percent and is_percent:
            self._logged_in_percent.add(curve)
            return list(kept), True
        return [self.scaled(curve, points, factor)], replace
