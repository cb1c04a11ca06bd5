"""The best value that each validation metric of a run has reached."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from engine.runs.store.store_reader import RunReader
from engine.spec.metric_direction import lower_is_better


class BestFigure(NamedTuple):
    """The best value of a metric, and the first step with this value."""

    value: float
    step: int


def best_figures(
    reader: RunReader, directions: Mapping[str, str] | None = None
) -> dict[str, BestFigure]:
    """Return the best finite value of each `validation/...` series. Raises sqlite3.Error.

    `directions`: those of the run's status, if that was read already.
    """
    if directions is None:
        directions = reader.status().metric_directions
    found = reader.best_of_each("validation/", lambda name: lower_is_better(name, directions))
    return {series: BestFigure(*best) for series, best in found.items()}
