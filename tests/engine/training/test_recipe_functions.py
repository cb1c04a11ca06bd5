"""Functions of a recipe that the engine could not call are refused by name."""

from __future__ import annotations

import math
from functools import partial

import pytest

from engine.training.errors import TrainingFailed
from engine.training.recipe_functions import check_call, check_mean_of_losses
from tests.support.sentences import sentence


@pytest.mark.parametrize(
    ("name", "function", "own"),
    [
        ("optimizer", lambda learning_rate: 1, r"optimizer\(learning_rate\)"),
        ("optimizer", lambda parameters, *, learning_rate: 1, "optimizer"),
        ("weight", lambda: 1, r"weight\(\)"),
        ("step", 3, sentence("step-of-recipe-is-an-int").pattern),
    ],
)
def test_a_function_that_does_not_fit_is_refused(name: str, function: object, own: str) -> None:
    with pytest.raises(TrainingFailed, match=own):
        check_call(name, function)


@pytest.mark.parametrize(
    "function",
    [
        lambda parameters, learning_rate, momentum=0.9: 1,
        partial(lambda anything, rate, momentum: 1, momentum=0.5),
        lambda *arguments: 1,
        max,
        None,
    ],
)
def test_a_function_that_can_be_called_is_taken(function: object) -> None:
    check_call("optimizer", function)


@pytest.mark.parametrize(("losses", "whole"), [([1.0, 3.0], 2.2), ([0.0], 0.0), ([5.0], math.nan)])
def test_losses_of_samples_that_make_the_loss_pass(losses, whole):
    check_mean_of_losses(losses, whole)


@pytest.mark.parametrize("losses", [[42.0, 42.0], [math.nan, 0.7], [0.0, 0.0], [-0.7, -0.7]])
def test_losses_of_samples_that_cannot_make_the_loss_are_refused(losses):
    with pytest.raises(TrainingFailed):
        check_mean_of_losses(losses, 0.7)
