"""The best value that each validation metric of a run has reached, and which way is better."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from engine.runs.store_reader import RunReader

_LESS_IS_BETTER = frozenset({"loss", "error", "mae", "mse", "rmse", "perplexity"})


class BestFigure(NamedTuple):
    """The best value of a metric, and the first step at which it was reached."""

    value: float
    step: int


@cache
def less_is_better(metric: str) -> bool:
    """Whether a lower value of `metric` (`validation/loss`, `top_5_error`) is a better one."""
    words = re.split(r"[_\W]+", metric.rpartition("/")[2].lower())
    return not _LESS_IS_BETTER.isdisjoint(words)


def primary_metric(metrics: Iterable[str]) -> str:
    """The validation metric that says best how good a model is: the first that is no loss or
    error, else the first. Empty where there is none."""
    validation = (name for name in metrics if name.startswith("validation/"))
    return min(validation, key=less_is_better, default="")


def best_figures(reader: RunReader) -> dict[str, BestFigure]:
    """The best finite value of each `validation/...` series. Raises sqlite3.Error."""
    found = {}
    for series in reader.counts():
        if series.startswith("validation/"):
            best = reader.best(series, lowest=less_is_better(series))
            if best is not None:
                found[series] = BestFigure(*best)
    return found
