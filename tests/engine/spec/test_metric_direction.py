"""Which way a metric is better, and how recipe and user override it."""

from __future__ import annotations

import math

import pytest

from engine.spec.metric_direction import (
    best_as_shown,
    direction_overrides,
    lower_is_better,
    merged_overrides,
    primary_metric,
    split_direction,
)

LOWER = """loss validation/loss train/loss Top1_Error word_errors err top5err mae MAE val_mse rmse
mape wer WER cer perplexity ppl FID kl_divergence categorical_crossentropy valLoss valloss
mean_squared_error MeanAbsoluteError accuracy_loss hamming_loss neg_log_likelihood nll latency
false_positive_error loss_2 chamfer_distance
step_seconds train/step_seconds"""
HIGHER = """accuracy validation/accuracy top_5 f1 auc precision recall iou mIoU bleu r2 psnr ssim
mAP score ndcg@10 error_detection_accuracy neg_mean_squared_error lossless_ratio tokens_per_second
negative_predictive_value dice 1 损失"""


@pytest.mark.parametrize("metric", LOWER.split())
def test_less_of_these_is_better(metric: str) -> None:
    assert lower_is_better(metric)


@pytest.mark.parametrize("metric", HIGHER.split())
def test_more_of_these_is_better(metric: str) -> None:
    assert not lower_is_better(metric)


def test_the_recipe_and_before_it_the_user_decide_otherwise() -> None:
    recipe = {"score": "min", "loss": "max"}
    both = direction_overrides(recipe, "score:max")
    assert lower_is_better("validation/score", recipe)
    assert not lower_is_better("validation/loss", recipe)
    assert not lower_is_better("validation/score", both)
    assert not lower_is_better("validation/loss", both)
    assert direction_overrides(recipe, "score") == direction_overrides(recipe, "") == recipe


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("mae", ("mae", None)),
        ("mae:min", ("mae", "min")),
        (" mae : max ", ("mae", "max")),
        ("validation/mae:min", ("mae", "min")),
        ("top:5", ("top:5", None)),
        ("top:5:max", ("top:5", "max")),
        (":min", (":min", None)),
        ("", ("", None)),
    ],
)
def test_a_direction_follows_the_name(text: str, found: tuple[str, str | None]) -> None:
    assert split_direction(text) == found


@pytest.mark.parametrize(
    ("values", "shown", "lowest", "best"),
    [
        ((0.2, 0.1), ("0.2", "0.1"), True, {1}),
        ((0.2, 0.1), ("0.2", "0.1"), False, {0}),
        ((0.14, 0.11, 0.3), ("0.1", "0.1", "0.3"), True, {0, 1}),
        ((0.14, 0.11), ("0.1", "0.1"), True, set()),
        ((math.nan, math.inf, 0.1), ("–", "∞", "0.1"), True, set()),
        ((math.nan, 0.2, 0.1), ("–", "0.2", "0.1"), True, {2}),
        ((), (), True, set()),
    ],
)
def test_values_that_are_shown_alike_are_best_together_or_not_at_all(
    values: tuple[float, ...], shown: tuple[str, ...], lowest: bool, best: set[int]
) -> None:
    assert best_as_shown(values, shown, lowest=lowest) == best


def test_of_several_runs_the_first_that_says_something_counts() -> None:
    runs = [{}, {"a": "min"}, {"a": "max", "b": "max"}]
    assert merged_overrides(runs) == {"a": "min", "b": "max"}


def test_the_primary_metric_is_the_first_of_which_more_is_better() -> None:
    metrics = ["train/loss", "validation/loss", "validation/mae", "validation/score"]
    assert primary_metric(metrics) == "validation/score"
    assert primary_metric(metrics, {"mae": "max"}) == "validation/mae"
    assert primary_metric(metrics[:3]) == "validation/loss"
    assert primary_metric(["train/loss"]) == ""
