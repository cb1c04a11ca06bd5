"""The best value that each validation metric of a run has reached."""

from __future__ import annotations

from typing import NamedTuple

from engine.runs.store.store_reader import RunReader
from engine.spec.metric_direction import lower_is_better


class BestFigure(NamedTuple):
    """The best value of a metric, and the first step with this value."""

    value: float
    step: int


def best_figures(reader: RunReader) -> dict[str, BestFigure]:
    """Return the best finite value of each `validation/...` series. Raises sqlite3.Error."""
    directions = reader.status().metric_directions
    found = {}
    for series in reader.counts():
        if series.startswith("validation/"):
            best = reader.best(series, lowest=lower_is_better(series, directions))
            if best is not None:
                found[series] = BestFigure(*best)
    return found
