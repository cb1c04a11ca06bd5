"""Which way a metric is better: the one rule for checkpoints, stars, tables and orders."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Literal, get_args

Direction = Literal["min", "max"]
"""`min`: the lower value is the better one; `max`: the higher one."""

DIRECTIONS: tuple[Direction, ...] = get_args(Direction)
NO_OVERRIDES: Mapping[str, str] = {}
_PREFIXES = ("train/", "validation/")

# A name may hold words of both kinds: the last one decides, because it is the noun
# (`error_detection_accuracy`, `accuracy_loss`). A name without any of them is taken as `max`.
_LOWER_WORDS = """
loss losses error errors err cost penalty regret deviance residual divergence distance latency
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
"""Words that are often written together with what stands before them, such as `valloss`."""

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def lower_is_better(metric: str, overrides: Mapping[str, str] = NO_OVERRIDES) -> bool:
    """Whether a lower value of `metric` (`validation/loss`, `top5_error`, `WER`) is the better one.

    `overrides` are the directions that the user or the recipe has given, by the metric's name.
    """
    name = bare_name(metric)
    return overrides[name] == "min" if name in overrides else _lower_by_name(name)


def bare_name(metric: str) -> str:
    """Return `loss` for `validation/loss`, as a recipe calls the metric."""
    for prefix in _PREFIXES:
        metric = metric.removeprefix(prefix)
    return metric


def split_direction(text: str) -> tuple[str, Direction | None]:
    """Return name and direction of `mae:min`; None where `text` is only a name."""
    name, _, given = text.rpartition(":")
    for direction in DIRECTIONS:
        if name and given.strip() == direction:
            return bare_name(name.strip()), direction
    return bare_name(text), None


def direction_overrides(recipe: Mapping[str, str], checkpoint_best: str) -> dict[str, str]:
    """Return the directions by metric that a run has in place of the rule.

    `recipe` is its `METRIC_DIRECTIONS`; the user's `checkpoint_best`, such as `mae:min`, comes
    before it.
    """
    name, direction = split_direction(checkpoint_best)
    return {**recipe, name: direction} if direction else dict(recipe)


def merged_overrides(runs: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Return one set of directions for several runs; of two that differ the first one counts."""
    merged: dict[str, str] = {}
    for overrides in runs:
        merged = {**overrides, **merged}
    return merged


def primary_metric(metrics: Iterable[str], overrides: Mapping[str, str] = NO_OVERRIDES) -> str:
    """Return the validation metric that best tells how good a model is; empty without any.

    That is the first one of which more is better, such as an accuracy; without such, the first.
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
    # `neg_mean_squared_error` is higher for a better model, `neg_log_likelihood` is lower.
    if words[:1] in (["neg"], ["negative"]) and not _LOWER.union(_HIGHER).isdisjoint(words):
        return not is_lower
    return is_lower
