"""Decides whether lower or higher values of a metric are better, for all parts of Traindeck."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Literal, get_args

Direction = Literal["min", "max"]
"""`min`: lower values are better; `max`: higher values are better."""

DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
NO_OVERRIDES: Mapping[str, str] = {}
_PREFIXES = ("train/", "validation/")
_SHORT = {"val/": "validation/", "eval/": "validation/", "valid/": "validation/"}

# A name may contain words of both lists: the last one decides, because it is the noun
# (`error_detection_accuracy`, `accuracy_loss`). A name without such a word counts as `max`.
_LOWER_WORDS = """
loss losses error errors err cost penalty regret deviance residual divergence distance
latency seconds
mae mse rmse nrmse msle rmsle mape smape mdape wape mase rae rse mre crps
nll bce entropy crossentropy logloss kl kld brier ece bpb bpc bpd perplexity ppl aic bic
wer cer ter der eer fpr fnr hamming
fid kid lpips epe mpjpe chamfer hausdorff assd ade fde nme
"""
_HIGHER_WORDS = """
accuracy acc auc auroc auprc precision recall specificity sensitivity kappa mcc
iou miou dice jaccard map ap ndcg mrr bleu rouge meteor psnr ssim
correlation pearson spearman similarity likelihood elbo reward return
"""
_LOWER, _HIGHER = frozenset(_LOWER_WORDS.split()), frozenset(_HIGHER_WORDS.split())
_ENDINGS = ("loss", "losses", "error", "errors")
"""Words that often end a longer word, such as `valloss`."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def lower_is_better(metric: str, overrides: Mapping[str, str] = NO_OVERRIDES) -> bool:
    """Whether lower values of `metric` (`validation/loss`, `top5_error`, `WER`) are better.

    `overrides` has the directions from the user and the recipe, by the metric's name.
    """
    name = bare_name(metric)
    return overrides[name] == "min" if name in overrides else _lower_by_name(name)


def is_better(value: float, best: float | None, *, lowest: bool) -> bool:
    """Whether `value` is a new best one after `best`; None: there was none yet.

    This is the one rule for a best result: it is finite, and of equal ones the first counts.
    """
    if not math.isfinite(value):
        return False
    return best is None or (value < best if lowest else value > best)


def best_as_shown(values: Sequence[float], shown: Sequence[str], *, lowest: bool) -> frozenset[int]:
    """Return the places of the best of `values`, which stand side by side as `shown`.

    Nobody can tell apart what is shown alike: such values are best together. If all finite ones
    are shown alike, none of them is.
    """
    finite = {place: value for place, value in enumerate(values) if math.isfinite(value)}
    if len({shown[place] for place in finite}) < 2:
        return frozenset()
    best = shown[(min if lowest else max)(finite, key=finite.__getitem__)]
    return frozenset(place for place in finite if shown[place] == best)


def bare_name(metric: str) -> str:
    """Return the recipe's name of a metric: `loss` for `validation/loss`."""
    for prefix in _PREFIXES:
        metric = metric.removeprefix(prefix)
    return metric


def long_name(series: str) -> str:
    """Return the series that a person means by `val/loss`: `validation/loss`."""
    for short, full in _SHORT.items():
        if series.lower().startswith(short):
            return full + series[len(short) :]
    return series


def split_series(text: str) -> tuple[str, Direction | None]:
    """Return series and direction of `train/mae:min`; the direction is None if there is none."""
    name, _, given = text.rpartition(":")
    for direction in DIRECTIONS:
        if name and given.strip() == direction:
            return name.strip(), direction
    return text, None


def split_direction(text: str) -> tuple[str, Direction | None]:
    """Return name and direction of `mae:min`; the direction is None if `text` is only a name."""
    series, direction = split_series(text)
    return bare_name(series), direction


def direction_overrides(recipe: Mapping[str, str], *chosen: str) -> dict[str, str]:
    """Return the directions by metric that override the rule of this module.

    `recipe` is its `METRIC_DIRECTIONS`; what the user has `chosen`, such as `mae:min`, overrides
    it.
    """
    found = map(split_direction, chosen)
    return {**recipe, **{name: direction for name, direction in found if direction}}


def with_sets(overrides: Mapping[str, str], prefixes: Iterable[str]) -> dict[str, str]:
    """Return `overrides`, also for the metrics of further validation sets.

    Their names begin with a prefix: `novelty` is `test_novelty` of the set `test`.
    """
    further = {prefix + name: each for prefix in prefixes for name, each in overrides.items()}
    return further | dict(overrides)


def merged_overrides(runs: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return one set of directions for several runs; if two runs differ, the first run decides."""
    merged: dict[str, str] = {}
    for overrides in runs:
        merged = {**overrides, **merged}
    return merged


def primary_metric(metrics: Iterable[str], overrides: Mapping[str, str] = NO_OVERRIDES) -> str:
    """Return the validation metric that summarises a run; empty if there is none.

    It is the first metric whose higher values are better, such as an accuracy, else the first one.
    """
    validation = (name for name in metrics if name.startswith("validation/"))
    return min(validation, key=lambda name: lower_is_better(name, overrides), default="")


@cache
def _lower_by_name(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    is_lower = False
    for word in words:
        if word in _LOWER or word.endswith(_ENDINGS):
            is_lower = True
        elif word in _HIGHER:
            is_lower = False
    # Higher `neg_mean_squared_error` is better; lower `neg_log_likelihood` is better.
    if words[:1] in (["neg"], ["negative"]) and not _LOWER.union(_HIGHER).isdisjoint(words):
        return not is_lower
    return is_lower
