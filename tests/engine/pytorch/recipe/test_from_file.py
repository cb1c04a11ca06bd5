"""What a recipe's functions become, which of their parameters are passed, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from engine.pytorch.recipe.from_file import values_of
from engine.pytorch.recipe.torch_recipe import Carried, PlannedRun, TorchRecipe, TrainedModel, Turn
from engine.training.errors import TrainingFailed
from tests.support.sentences import sentence
from tests.support.torch_recipes import recipe_of

MODEL = nn.Linear(2, 1)
FACTS = PlannedRun(0.5, 40, 8)
BATCH = (torch.ones(3, 2), torch.zeros(3, 1))


def identity(value: Any) -> Any:
    return value


def trained() -> TrainedModel:
    return TrainedModel(MODEL, ["parameters"], ["named"], identity)


def optimizer_of(recipe: TorchRecipe) -> Any:
    return recipe.make_optimizers(trained(), FACTS)[""].optimizer


def test_a_recipe_of_loss_and_outputs_is_as_it_was() -> None:
    recipe = recipe_of()
    assert recipe.step is None
    assert recipe.takes_pairs
    assert not recipe.calls_model
    assert recipe.loss(torch.zeros(2, 3), torch.tensor([0, 1])) == pytest.approx(1.0986, abs=1e-3)
    assert recipe.metrics(1, 2) == {}


def gives(*passed: Any) -> Any:
    return {"optimizer": {"passed": passed}}


@pytest.mark.parametrize(
    ("optimizer", "passed"),
    [
        (lambda parameters, learning_rate: gives(parameters, learning_rate), (["parameters"], 0.5)),
        (lambda anything, rate: gives(anything, rate), (["parameters"], 0.5)),
        (lambda model, learning_rate: gives(model, learning_rate), (MODEL, 0.5)),
        (lambda named_parameters, learning_rate: gives(named_parameters), (["named"],)),
        (lambda parameters, learning_rate, total_steps: gives(total_steps), (40,)),
        (lambda parameters, learning_rate, steps_per_epoch: gives(steps_per_epoch), (8,)),
    ],
)
def test_the_optimizer_gets_what_its_parameters_say(
    optimizer: Callable[..., Any], passed: Any
) -> None:
    assert optimizer_of(recipe_of(optimizer=optimizer)) == {"passed": passed}


def test_an_optimizer_that_needs_a_length_that_is_not_known() -> None:
    recipe = recipe_of(optimizer=lambda parameters, learning_rate, total_steps: None)
    with pytest.raises(TrainingFailed, match="asks for total_steps"):
        recipe.make_optimizers(trained(), FACTS._replace(total_steps=0))


def test_a_length_that_is_not_known_is_left_to_its_default() -> None:
    recipe = recipe_of(
        optimizer=lambda parameters, learning_rate, total_steps, steps_per_epoch=7: gives(
            total_steps, steps_per_epoch
        )
    )
    plan = recipe.make_optimizers(trained(), FACTS._replace(steps_per_epoch=0))[""]
    assert plan.optimizer == {"passed": (40, 7)}  # type: ignore[comparison-overlap]
    recipe = recipe_of(optimizer=lambda parameters, learning_rate, steps_per_epoch: None)
    with pytest.raises(TrainingFailed, match="not known: leave it out"):
        recipe.make_optimizers(trained(), FACTS._replace(steps_per_epoch=0))


def test_the_model_may_take_the_data() -> None:
    assert not recipe_of(model=lambda: MODEL).takes_data
    assert not recipe_of(model=lambda data="x": MODEL).takes_data
    for model in (lambda data: [data], lambda data=None: [data]):
        recipe = recipe_of(model=model)
        assert recipe.takes_data
        assert recipe.make_model("given") == ["given"]


def step_of(function: Callable[..., Any]) -> Any:
    step = recipe_of(step=function).step
    assert step
    return step


def test_a_step_returns_a_loss_or_a_dictionary() -> None:
    for result in (torch.tensor(2.0), torch.tensor([1.0, 3.0]), {"loss": torch.tensor(2.0)}):
        step = step_of(lambda model, batch, result=result: result)
        assert step(MODEL, BATCH, Turn()) == {"loss": torch.tensor(2.0)}
    more = {"loss": torch.tensor(2.0), "right": torch.tensor([0.5]), "count": 3}
    found = step_of(lambda model, batch: more)(MODEL, BATCH, Turn())
    assert found == {"loss": torch.tensor(2.0), "right": torch.tensor(0.5), "count": 3.0}


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (None, "'loss' as a NoneType"),
        ({"right": 1.0}, "its keys are 'right'"),
        ({"loss": 1.0}, sentence("must-return-loss-tensor").pattern),
        ({"loss": torch.tensor(1.0), "logits": torch.ones(2, 3)}, r"'logits' .* shape \(2, 3\)"),
        ({"loss": torch.tensor(1.0), "name": "a"}, "'name' as a str"),
    ],
)
def test_an_entry_that_is_no_curve_is_refused_by_name(result: Any, text: str) -> None:
    with pytest.raises(TrainingFailed, match=text):
        values_of(result, "step()", needs_loss=True)


def test_validation_returns_a_dictionary() -> None:
    assert values_of({"accuracy": 1}, "validate()", needs_loss=False) == {"accuracy": 1.0}
    with pytest.raises(TrainingFailed, match="dictionary with a number"):
        values_of(1.0, "validate()", needs_loss=False)


def test_a_validation_alone_comes_with_the_step_of_the_loss() -> None:
    recipe = recipe_of(
        validate=lambda model, batch: {"own": 1.0}, loss=lambda o, t: (o - t).abs().flatten()
    )
    assert recipe.calls_model
    assert recipe.takes_pairs
    assert recipe.step
    [loss] = recipe.step(MODEL, BATCH, Turn()).values()
    assert torch.equal(torch.as_tensor(loss), MODEL(BATCH[0]).abs().mean())


def test_what_is_carried_has_no_graph_and_comes_back() -> None:
    seen = []

    def step(model: Any, batch: Any, carried: Any) -> Any:
        seen.append(carried)
        hidden = MODEL(batch[0])
        return hidden.sum(), {"h": [hidden]}

    own = recipe_of(step=step)
    assert own.carries_state
    assert own.step
    turn = Turn(carried=Carried())
    own.step(MODEL, BATCH, turn)
    own.step(MODEL, BATCH, turn)
    assert seen[0] is None
    assert not seen[1]["h"][0].requires_grad


def test_a_step_that_forgets_what_it_carries() -> None:
    step = step_of(lambda model, batch, carried: MODEL(batch[0]).sum())
    with pytest.raises(TrainingFailed, match="must return two things"):
        step(MODEL, BATCH, Turn(carried=Carried()))


def optimizers(model: Any, learning_rate: float) -> Any:
    return {name: {"optimizer": name} for name in ("one", "two")}


def test_the_name_of_the_optimizer_is_passed() -> None:
    for step in (
        lambda model, batch, optimizer: {"loss": torch.tensor(len(optimizer))},
        lambda model, batch, name: {"loss": torch.tensor(len(name))},
    ):
        own = recipe_of(step=step, optimizers=optimizers)
        assert own.has_several_optimizers
        assert own.step
        assert own.step(MODEL, BATCH, Turn("four")) == {"loss": torch.tensor(4)}


@pytest.mark.parametrize(
    ("functions", "text"),
    [
        ({"optimizers": optimizers}, "no step"),
        (
            {"optimizers": optimizers, "step": lambda model, batch: 1},
            sentence("does-not-take-name-of-one").pattern,
        ),
        ({"step": lambda model, batch, optimizer: 1}, "no optimizers"),
        (
            {"optimizers": optimizers, "step": lambda model, batch, name, carried: 1},
            "one optimizer only",
        ),
        (
            {
                "optimizers": optimizers,
                "optimizer": lambda p, lr: 1,
                "step": lambda model, batch, name: 1,
            },
            sentence("optimizer-and-optimizers-keep").pattern,
        ),
        ({"weight": lambda: 1}, sentence("weight-of-recipe-does-not-fit").pattern),
        ({"validate": lambda model: 1}, r"validate\(model\) .* calls validate\(model, batch\)"),
        ({"step": 3}, "must be a function"),
    ],
)
def test_functions_that_contradict_each_other_are_refused(
    functions: dict[str, Any], text: str
) -> None:
    with pytest.raises(TrainingFailed, match=text):
        recipe_of(**functions)


@pytest.mark.parametrize("amount", [-1, float("nan"), float("inf")])
def test_a_weight_is_a_number_from_zero(amount: float) -> None:
    weight = recipe_of(weight=lambda batch: amount).weight
    assert weight
    with pytest.raises(TrainingFailed, match="must be a number from 0"):
        weight(BATCH)
