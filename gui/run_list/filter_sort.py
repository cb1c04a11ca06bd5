"""Which runs the list shows for a search, and in which order; no widgets."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable
from enum import StrEnum

from engine.runs.run_info import RunInfo, UnreadableRun
from engine.spec.metric_direction import lower_is_better, merged_overrides, primary_metric
from gui.style.translation import translate

_LOSS = "validation/loss"
_TRAIN_LOSS = "train/loss"


class SortOrder(StrEnum):
    """How the list of runs can be sorted."""

    NEWEST = "newest"
    METRIC = "metric"
    LOSS = "loss"
    DURATION = "duration"
    NAME = "name"


def order_names() -> dict[SortOrder, str]:
    """What people read for each order."""
    return {
        SortOrder.NEWEST: translate("SortOrder", "Newest"),
        SortOrder.METRIC: translate("SortOrder", "Best metric"),
        SortOrder.LOSS: translate("SortOrder", "Lowest loss"),
        SortOrder.DURATION: translate("SortOrder", "Longest"),
        SortOrder.NAME: translate("SortOrder", "Name"),
    }


def matching(infos: Iterable[RunInfo], text: str) -> list[RunInfo]:
    """The runs in which every word of `text` is found, in whatever case: in the number, name,
    recipe, strategy, state, tags or note."""
    words = text.casefold().split()
    return [info for info in infos if not words or _holds(info, words)]


def unreadable_matching(runs: Iterable[UnreadableRun], text: str) -> list[UnreadableRun]:
    """The same of runs of which little is known: their number, and what is wrong with them."""
    words = text.casefold().split()
    return [
        run
        for run in runs
        if all(word in f"#{run.id}\nunreadable\n{run.reason}".casefold() for word in words)
    ]


def sorted_runs(infos: list[RunInfo], order: SortOrder) -> list[RunInfo]:
    """`infos`, which come newest first, in another order; what has no figure comes last, and
    what is equal stays newest first."""
    match order:
        case SortOrder.NEWEST:
            return infos
        case SortOrder.METRIC:
            return sorted(infos, key=_by_metric(infos))
        case SortOrder.LOSS:
            return sorted(infos, key=lambda info: _last_if_nan(best_loss(info)))
        case SortOrder.DURATION:
            return sorted(infos, key=lambda info: -duration(info))
        case SortOrder.NAME:
            return sorted(infos, key=lambda info: info.name.casefold())


def run_to_open(infos: Iterable[RunInfo]) -> str | None:
    """Which of `infos`, newest first, a window shows by itself: the newest active one, else the
    newest."""
    newest = None
    for info in infos:
        if not info.state.is_over:
            return info.id
        newest = newest or info.id
    return newest


def best_loss(info: RunInfo) -> float:
    """The lowest validation loss, else the newest training loss; NaN without any."""
    if _LOSS in info.best:
        return info.best[_LOSS].value
    return info.status.metrics.get(_TRAIN_LOSS, math.nan)


def duration(info: RunInfo) -> float:
    """Seconds that the run has taken up to its newest event; 0 before the first."""
    return info.status.seconds(info.status.updated)


def _holds(info: RunInfo, words: list[str]) -> bool:
    spec, notes = info.spec, info.notes
    texts = (f"#{info.id}", info.name, spec.name, spec.recipe, spec.strategy, info.state)
    haystack = "\n".join((*texts, *notes.tags, notes.note)).casefold()
    return all(word in haystack for word in words)


def _by_metric(infos: list[RunInfo]) -> Callable[[RunInfo], float]:
    """Sort by the primary metric of most of the runs: those with another one cannot be compared."""
    directions = merged_overrides(info.status.metric_directions for info in infos)
    names: Counter[str] = Counter()
    for metrics, count in Counter(tuple(info.best) for info in infos if info.best).items():
        names[primary_metric(metrics, directions)] += count
    metric = max(names, key=lambda name: names[name], default="")
    sign = 1.0 if lower_is_better(metric, directions) else -1.0

    def key(info: RunInfo) -> float:
        return sign * info.best[metric].value if metric in info.best else math.inf

    return key


def _last_if_nan(value: float) -> float:
    return math.inf if math.isnan(value) else value
