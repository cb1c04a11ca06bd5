"""Every form in which a recipe may return optimizers and schedulers, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from engine.pytorch.recipe.optimizer_plan import OptimizerPlan, named_plans, one_plan
from engine.training.errors import TrainingFailed
from tests.support.sentences import sentence


def convert(value: Any) -> torch.optim.Optimizer:
    if not isinstance(value, torch.optim.Optimizer):
        raise TypeError(f"optimizer() gave a {type(value).__name__}.")
    return value


def optimizer(count: int = 1) -> torch.optim.Optimizer:
    return torch.optim.SGD([nn.Parameter(torch.ones(count))], 0.1)


def plan(result: Any) -> OptimizerPlan:
    return one_plan(result, "optimizer()", convert)


MADE = optimizer()
EPOCHS = lr_scheduler.StepLR(MADE, 1)
BATCHES = lr_scheduler.OneCycleLR(MADE, 0.1, total_steps=5)
PLATEAU = lr_scheduler.ReduceLROnPlateau(MADE)

FORMS: dict[str, tuple[Any, list[tuple[Any, bool, int, str, bool]]]] = {
    "alone": (MADE, []),
    "in a list": ([MADE], []),
    "with a scheduler": ((MADE, EPOCHS), [(EPOCHS, False, 1, "", True)]),
    "two lists": (([MADE], [EPOCHS]), [(EPOCHS, False, 1, "", True)]),
    "per batch by its kind": ((MADE, BATCHES), [(BATCHES, True, 1, "", True)]),
    "per step": (
        (MADE, {"scheduler": EPOCHS, "interval": "step", "frequency": 3}),
        [(EPOCHS, True, 3, "", False)],
    ),
    "follows the loss": ((MADE, PLATEAU), [(PLATEAU, False, 1, "validation/loss", False)]),
    "a dictionary": (
        {"optimizer": MADE, "lr_scheduler": {"scheduler": PLATEAU, "monitor": "val_f1"}},
        [(PLATEAU, False, 1, "val_f1", False)],
    ),
    "several schedulers": (
        {"optimizer": MADE, "lr_scheduler": [BATCHES, {"scheduler": EPOCHS, "interval": "epoch"}]},
        [(BATCHES, True, 1, "", True), (EPOCHS, False, 1, "", False)],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_one_optimizer_in_every_form(form: str) -> None:
    result, schedulers = FORMS[form]
    assert plan(result).optimizer is MADE
    # Each is strict, and its metric has the name that is written here.
    expected = [(*each, "", True) for each in schedulers]
    assert [tuple(each) for each in plan(result).schedulers] == expected


REFUSED: dict[str, tuple[Any, str]] = {
    "nothing": (None, "gave a NoneType. It may return an optimizer"),
    "several in a list": ([[MADE, optimizer()], []], "gave 2 optimizers in a list: name them"),
    "no scheduler": ((MADE, 3), "gave a int as scheduler, which has no step"),
    "an interval": ((MADE, {"scheduler": EPOCHS, "interval": "hour"}), "interval 'hour'"),
    "a metric per step": (
        (MADE, {"scheduler": PLATEAU, "interval": "step"}),
        "which there is once per epoch",
    ),
    "a frequency": ((MADE, {"scheduler": EPOCHS, "frequency": 0}), "frequency 0"),
    "a key": ((MADE, {"scheduler": EPOCHS, "every": 2}), "'every', which means nothing here"),
    "a frequency of an optimizer": ({"optimizer": MADE, "frequency": 5}, "one step per batch"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_means_nothing_is_refused_by_name(case: str) -> None:
    result, text = REFUSED[case]
    with pytest.raises(TrainingFailed, match=text.replace("(", r"\(").replace(")", r"\)")):
        plan(result)


def test_several_optimizers_keep_their_names_and_order() -> None:
    other = optimizer()
    plans = named_plans({"second": other, "first": (MADE, EPOCHS)}, "optimizers()", convert)
    assert list(plans) == ["second", "first"]
    assert plans["second"] == OptimizerPlan(other)
    assert plans["first"].schedulers[0].scheduler is EPOCHS


@pytest.mark.parametrize("result", [[MADE], {}, {"a b": MADE}, {1: MADE}, MADE])
def test_several_optimizers_need_names(result: Any) -> None:
    with pytest.raises(TrainingFailed, match="must return a dictionary"):
        named_plans(result, "optimizers()", convert)


def test_a_parameter_belongs_to_one_optimizer() -> None:
    parameter = nn.Parameter(torch.ones(2, 3))
    both = {name: torch.optim.SGD([parameter], 0.1) for name in ("a", "b")}
    with pytest.raises(TrainingFailed, match=sentence("of-shape-to-optimizers-and-b").pattern):
        named_plans(both, "optimizers()", convert)
