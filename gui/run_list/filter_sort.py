"""Searches and sorts the list of runs; no widgets."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from enum import StrEnum

from engine.runs.run_info import RunInfo, UnreadableRun
from engine.spec.metric_direction import lower_is_better, merged_overrides, primary_metric

_LOSS = "validation/loss"
_TRAIN_LOSS = "train/loss"


class SortOrder(StrEnum):
    """The sort orders of the list of runs."""

    NEWEST = "newest"
    METRIC = "metric"
    LOSS = "loss"
    DURATION = "duration"
    NAME = "name"


ORDER_NAMES = {
    SortOrder.NEWEST: "Newest",
    SortOrder.METRIC: "Best metric",
    SortOrder.LOSS: "Lowest loss",
    SortOrder.DURATION: "Longest",
    SortOrder.NAME: "Name",
}


def matching(infos: Iterable[RunInfo], text: str) -> list[RunInfo]:
    """Return the runs that contain every word of `text`, ignoring case, in number, name, recipe,
    strategy, state, tags or note."""
    words = text.casefold().split()
    return [info for info in infos if not words or _holds(info, words)]


def unreadable_matching(runs: Iterable[UnreadableRun], text: str) -> list[UnreadableRun]:
    """Return the unreadable runs that contain every word of `text` in number or reason."""
    words = text.casefold().split()
    return [
        run
        for run in runs
        if all(word in f"#{run.id}\nunreadable\n{run.reason}".casefold() for word in words)
    ]


def sorted_runs(infos: list[RunInfo], order: SortOrder) -> list[RunInfo]:
    """Return `infos`, which are sorted newest first, in another order. Runs without the figure come
    last; equal runs stay newest first."""
    match order:
        case SortOrder.NEWEST:
            return infos
        case SortOrder.METRIC:
            return sorted(infos, key=_by_metric(infos))
        case SortOrder.LOSS:
            return sorted(infos, key=_best_loss)
        case SortOrder.DURATION:
            return sorted(infos, key=lambda info: -duration(info))
        case SortOrder.NAME:
            return sorted(infos, key=lambda info: info.name.casefold())


def run_to_open(infos: Iterable[RunInfo]) -> str | None:
    """Return the id of the run that the window opens at its start: the newest active run, otherwise
    the newest run. `infos` are sorted newest first."""
    newest = None
    for info in infos:
        if not info.state.is_over:
            return info.id
        newest = newest or info.id
    return newest


def duration(info: RunInfo) -> float:
    """Return the seconds from the beginning of the run to its newest event; 0 before the first
    event."""
    return info.status.seconds(info.status.updated)


def _holds(info: RunInfo, words: list[str]) -> bool:
    spec, notes = info.spec, info.notes
    texts = (f"#{info.id}", info.name, spec.name, spec.recipe, spec.strategy, info.state)
    searched = "\n".join((*texts, *notes.tags, notes.note)).casefold()
    return all(word in searched for word in words)


def _by_metric(infos: list[RunInfo]) -> Callable[[RunInfo], float]:
    """Return the sort key of the primary metric that most of the runs have: runs with another
    metric cannot be compared."""
    directions = merged_overrides(info.status.metric_directions for info in infos)
    names: Counter[str] = Counter()
    for metrics, count in Counter(tuple(info.best) for info in infos if info.best).items():
        names[primary_metric(metrics, directions)] += count
    metric = max(names, key=lambda name: names[name], default="")
    sign = 1.0 if lower_is_better(metric, directions) else -1.0

    def key(info: RunInfo) -> float:
        return sign * info.best[metric].value if metric in info.best else math.inf

    return key


def _best_loss(info: RunInfo) -> float:
    """Return the lowest validation loss, otherwise the newest training loss; infinity if there is
    none."""
    best = info.best.get(_LOSS)
    loss = best.value if best else info.status.metrics.get(_TRAIN_LOSS, math.inf)
    return math.inf if math.isnan(loss) else loss
