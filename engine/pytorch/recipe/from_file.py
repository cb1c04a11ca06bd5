"""Makes a `TorchRecipe` from the functions of the user's recipe file."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import partial
from types import ModuleType
from typing import Any

import torch
from torch.utils._pytree import tree_map

from engine.pytorch.recipe.optimizer_plan import OptimizerPlan, named_plans, one_plan
from engine.pytorch.recipe.torch_recipe import (
    PlannedRun,
    Step,
    TorchRecipe,
    TrainedModel,
    Turn,
    Validate,
    Value,
    Values,
)
from engine.spec.field_info import Setting
from engine.training.errors import TrainingFailed
from engine.training.recipe_functions import check_call

Settings = Callable[[Callable[..., Any]], Mapping[str, Setting]]
"""Returns the settings of the spec that are parameters of a function."""

_LENGTHS = ("total_steps", "steps_per_epoch")


def torch_recipe(module: ModuleType, settings_for: Settings, defaults: ModuleType) -> TorchRecipe:
    """Return what `module` offers; `defaults` has what it leaves out (see `TorchStrategy`).

    Raises TrainingFailed when functions of the recipe contradict each other.
    """

    def find(name: str) -> Any:
        """Return a function of the recipe with its settings bound, or None."""
        function = getattr(module, name, None)
        check_call(name, function)
        settings = settings_for(function) if function else {}
        return partial(function, **settings) if function and settings else function

    step, validate, several = find("step"), find("validate"), find("optimizers")
    if defaults.__name__.endswith("keras_model") and getattr(module, "callbacks", None):
        raise TrainingFailed(
            "The recipe has callbacks(), which torch/keras_ddp does not call: choose a strategy of "
            "TensorFlow, or define on_epoch(model, epoch, metrics)."
        )
    if several and not step:
        raise TrainingFailed(
            "The recipe has optimizers() but no step(model, batch, optimizer): define it, and "
            "return the loss of that optimizer."
        )
    if several and find("optimizer"):
        raise TrainingFailed(
            "The recipe has optimizer() and optimizers(): keep optimizers(), or the other one."
        )
    loss, model = find("loss") or defaults.loss, find("model")
    own_step = _step(step, bool(several)) if step else None
    if validate and not step:  # the model is called by the recipe, so always in the same way
        own_step = _step_of(loss)
    return TorchRecipe(
        make_datasets=find("datasets"),
        make_model=_model_maker(model),
        takes_data=_takes_data(model),
        build=partial(_build, defaults),
        loss=loss,
        sample_loss=find("sample_loss"),
        metrics=find("metrics") or _no_metrics,
        step=own_step,
        takes_pairs=step is None,
        has_own_loss=find("loss") is not None,
        collate=find("collate"),
        carries_state=bool(step) and "carried" in _parameters(step),
        weight=_weight(find("weight")),
        validate=_validate(validate) if validate else None,
        make_optimizers=(
            _several_optimizers(several)
            if several
            else _one_optimizer(find("optimizer"))
            if find("optimizer")
            else _default_optimizer(defaults.optimizer)
        ),
        has_own_optimizer=bool(several or find("optimizer")),
        has_several_optimizers=bool(several),
        make_average=find("ema"),
        on_epoch=find("on_epoch"),
        stages=find("stages"),
        may_skip_parameters=bool(getattr(module, "FIND_UNUSED_PARAMETERS", False)),
    )


def values_of(result: Any, function: str, *, needs_loss: bool) -> Values:
    """Return the `result` of a recipe's `function`, a loss or a dictionary, as values by name.

    A loss with one value per sample becomes its mean. Raises TrainingFailed, by name, for an entry
    that is no single number.
    """
    if isinstance(result, Mapping):
        values = {str(name): _single(str(name), value, function) for name, value in result.items()}
    elif needs_loss:
        values = {"loss": _single("loss", result, function)}
    else:
        raise TrainingFailed(
            f"{function} gave a {type(result).__name__}: it must return a dictionary with a number "
            'for each name, such as {"loss": loss}.'
        )
    if needs_loss and not isinstance(values.get("loss"), torch.Tensor):
        raise TrainingFailed(
            f"{function} must return the loss, a tensor, or a dictionary with the key 'loss'; its "
            f"keys are {', '.join(map(repr, values)) or 'none'}."
        )
    return values


def _no_metrics(outputs: Any, targets: Any) -> Values:
    return {}


def _single(name: str, value: Any, function: str) -> Value:
    if isinstance(value, torch.Tensor):
        if value.ndim == 0:
            return value
        if name == "loss" or value.numel() == 1:
            return value.mean()
        shape = f" of shape {tuple(value.shape)}"
    elif isinstance(value, bool | int | float) or hasattr(value, "__float__"):
        return float(value)
    else:
        shape = ""
    raise TrainingFailed(
        f"{function} gave {name!r} as a {type(value).__name__}{shape}: each entry is a curve, so "
        "it must be one number. Take its mean, or leave it out."
    )


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    return inspect.signature(function).parameters


def _model_maker(function: Callable[..., Any]) -> Callable[[Any], Any]:
    """Return `model()` as a function of the data sets: it gets them as its argument `data`."""
    if _takes_data(function):
        return lambda given: function(data=given)
    return lambda given: function()


def _takes_data(function: Callable[..., Any]) -> bool:
    data = _parameters(function).get("data")
    return data is not None and data.default in (inspect.Parameter.empty, None)


def _build(defaults: ModuleType, model: Any, batch: Any) -> None:
    """Create lazy parameters from a batch: its inputs are its first part, if it has parts."""
    has_parts = isinstance(batch, tuple | list) and bool(batch)
    defaults.build(model, batch[0] if has_parts else batch)


def _step_of(loss: Callable[[Any, Any], torch.Tensor]) -> Step:
    """Return the step of a recipe that has a loss of outputs and targets."""

    def step(model: Any, batch: Any, turn: Turn) -> Values:
        inputs, targets = batch
        value = loss(model(inputs), targets)
        return {"loss": value.mean() if value.ndim else value}

    return step


def _step(function: Callable[..., Any], has_names: bool) -> Step:
    required = [
        name
        for name, parameter in _parameters(function).items()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    carries = "carried" in _parameters(function)
    own = [name for name in required if name != "carried"]
    takes_name = len(own) > 2 or "optimizer" in _parameters(function)
    if takes_name and not has_names:
        raise TrainingFailed(
            "step() of the recipe takes the name of an optimizer, but the recipe has no "
            "optimizers(model, learning_rate): define it, or write step(model, batch)."
        )
    if has_names and not takes_name:
        raise TrainingFailed(
            "The recipe has optimizers(), and its step() does not take the name of one: write "
            "step(model, batch, optimizer)."
        )
    if has_names and carries:
        raise TrainingFailed(
            "step() of the recipe takes the name of an optimizer and carried: what is carried "
            "from batch to batch works with one optimizer only."
        )

    def step(model: Any, batch: Any, turn: Turn) -> Values:
        options: dict[str, Any] = {}
        if takes_name:
            options["optimizer" if "optimizer" in _parameters(function) else own[2]] = (
                turn.optimizer
            )
        if carries:
            options["carried"] = turn.carried.state if turn.carried else None
        result = function(model, batch, **options)
        if carries:
            if not isinstance(result, tuple) or len(result) != 2:
                raise TrainingFailed(
                    "step(model, batch, carried) of the recipe must return two things: the loss "
                    "or the dictionary, and what is carried to the next batch."
                )
            result, state = result
            if turn.carried:
                turn.carried.state = tree_map(_without_graph, state)
        return values_of(result, "step()", needs_loss=True)

    return step


def _without_graph(leaf: Any) -> Any:
    return leaf.detach() if isinstance(leaf, torch.Tensor) else leaf


def _weight(function: Callable[[Any], Any] | None) -> Callable[[Any], float] | None:
    if function is None:
        return None

    def weight(batch: Any) -> float:
        amount = float(function(batch))
        if not 0 <= amount < float("inf"):
            raise TrainingFailed(
                f"weight(batch) of the recipe gave {amount}: it must be a number from 0, of what "
                "the loss of the batch is the mean, such as its tokens."
            )
        return amount

    return weight


def _validate(function: Callable[[Any, Any], Any]) -> Validate:
    return lambda model, batch: values_of(function(model, batch), "validate()", needs_loss=False)


def _default_optimizer(
    function: Callable[..., Any],
) -> Callable[[TrainedModel, PlannedRun], dict[str, OptimizerPlan]]:
    def make(trained: TrainedModel, facts: PlannedRun) -> dict[str, OptimizerPlan]:
        optimizer = function(trained.parameters, facts.learning_rate, facts.precision)
        return {"": OptimizerPlan(trained.as_torch_optimizer(optimizer))}

    return make


def _one_optimizer(
    function: Callable[..., Any],
) -> Callable[[TrainedModel, PlannedRun], dict[str, OptimizerPlan]]:
    def make(trained: TrainedModel, facts: PlannedRun) -> dict[str, OptimizerPlan]:
        target = _first_argument(function, trained)
        result = function(target, facts.learning_rate, **_known_facts(function, facts))
        return {"": one_plan(result, "optimizer()", trained.as_torch_optimizer)}

    return make


def _several_optimizers(
    function: Callable[..., Any],
) -> Callable[[TrainedModel, PlannedRun], dict[str, OptimizerPlan]]:
    def make(trained: TrainedModel, facts: PlannedRun) -> dict[str, OptimizerPlan]:
        result = function(trained.model, facts.learning_rate, **_known_facts(function, facts))
        return named_plans(result, "optimizers()", trained.as_torch_optimizer)

    return make


def _first_argument(function: Callable[..., Any], trained: TrainedModel) -> Any:
    """Return what `optimizer` wants: its first parameter says so by its name."""
    match next(iter(_parameters(function)), ""):
        case "model":
            return trained.model
        case "named_parameters":
            return trained.named_parameters
        case _:
            return trained.parameters


def _known_facts(function: Callable[..., Any], facts: PlannedRun) -> dict[str, int]:
    """Return the lengths of the run that `function` asks for. Raises TrainingFailed.

    What is not known is left to a default of its parameter.
    """
    parameters = _parameters(function)
    found = {name: getattr(facts, name) for name in _LENGTHS if name in parameters}
    for name, value in found.items():
        if not value and parameters[name].default is inspect.Parameter.empty:
            way = "choose a number of steps" if name == "total_steps" else "leave it out"
            raise TrainingFailed(
                f"The optimizer of the recipe asks for {name}, and the length of the data is not "
                f"known: {way}, give the parameter a default, or give the data a length (__len__)."
            )
    return {name: value for name, value in found.items() if value}
