"""A compiled Keras model on the PyTorch backend: its loss, metrics and optimizer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import distributed

from engine.pytorch.recipe.optimizer_plan import OptimizerPlan
from engine.pytorch.recipe.torch_recipe import PlannedRun, TorchRecipe, TrainedModel, Turn, Values
from engine.training.errors import TrainingFailed

_ONLY_FIT_CALLS = ("train_step", "test_step")
_MEANS = ("sum_over_batch_size", "mean")


def is_compiled_keras(model: Any) -> bool:
    """Return whether `model` is a Keras model of which the recipe has called `compile`."""
    is_keras = any(base.__module__.startswith("keras.") for base in type(model).__mro__)
    return is_keras and bool(getattr(model, "compiled", False))


def adapted(recipe: TorchRecipe, model: Any) -> TorchRecipe:
    """Return `recipe` with the loss, the metrics and the optimizer of a compiled `model`.

    Raises TrainingFailed, by name, for what is said twice or cannot be honoured.
    """
    for name in _ONLY_FIT_CALLS:
        if not getattr(type(model), name).__module__.startswith("keras."):
            raise TrainingFailed(
                f"The model has its own {name}(), which only Keras' fit calls: define "
                "compute_loss() of the model, or step(model, batch) in the recipe."
            )
    if model.run_eagerly or model.jit_compile:
        raise TrainingFailed(
            "The model is compiled with run_eagerly or jit_compile, which torch/keras_ddp does "
            "not have: leave it out."
        )
    if model.optimizer is not None and recipe.has_own_optimizer:
        raise TrainingFailed(
            "The recipe has optimizer() and a model that is compiled with an optimizer: leave one "
            "of them out."
        )
    owns_loss = not type(model).compute_loss.__module__.startswith("keras.")
    has_loss = owns_loss or model._compile_loss is not None
    has_own = recipe.step is not None or not _is_default(recipe.loss)
    if has_loss and has_own:
        raise TrainingFailed(
            "The recipe has its own loss and a model that is compiled with a loss: leave one of "
            "them out."
        )
    compiled = _Compiled(model)
    if model.optimizer is not None:
        recipe = replace(recipe, make_optimizers=compiled.make_optimizers, has_own_optimizer=True)
    if not has_loss:
        return recipe
    return replace(
        recipe,
        takes_pairs=False,
        step=compiled.step,
        validate=recipe.validate or compiled.validate,
        after_validation=compiled.after_validation,
        forget_batch=compiled.forget_batch,
    )


class _Compiled:
    """The parts of a compiled model, as Keras' `fit` calls them."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self._has_checked = False
        self._before: list[tuple[Any, torch.Tensor]] = []

    def step(self, model: Any, batch: Any, turn: Turn) -> Values:
        """Return the loss of a batch, with regularisation."""
        return {"loss": self._outputs_and_loss(batch, training=True)[1]}

    def validate(self, model: Any, batch: Any) -> Values:
        """Return the loss of a batch; count it in the metrics."""
        inputs, targets, weight = _parts(batch)
        outputs, loss = self._outputs_and_loss(batch, training=False)
        self._before = [(v, v.value.detach().clone()) for v in self._counted()]
        self._model.compute_metrics(inputs, targets, outputs, sample_weight=weight)
        return {"loss": loss}

    def forget_batch(self) -> None:
        """Take back what the last batch has added to the metrics."""
        before = {id(variable): value for variable, value in self._before}
        for variable in self._counted():
            found = before.get(id(variable))
            variable.assign(torch.zeros_like(variable.value) if found is None else found)

    def after_validation(self, model: Any) -> Values:
        """Return the metrics over the validation data of all ranks, and reset them."""
        metrics = self._metrics()
        is_shared = distributed.is_initialized() and distributed.get_world_size() > 1
        for variable in self._counted():
            if is_shared:  # Keras' metrics keep sums
                value = variable.value.detach().clone()
                distributed.all_reduce(value)
                variable.assign(value)
        found = self._model.get_metrics_result() if metrics else {}
        values = {name: float(value) for name, value in found.items() if name != "loss"}
        self._model.reset_metrics()
        return dict(values)

    def make_optimizers(
        self, trained: TrainedModel, facts: PlannedRun
    ) -> Mapping[str, OptimizerPlan]:
        """Return the optimizer of `compile`, with the run's learning rate if the user chose it."""
        optimizer = self._model.optimizer
        if facts.learning_rate != facts.default_learning_rate:
            if not hasattr(optimizer.learning_rate, "assign"):
                raise TrainingFailed(
                    f"The run has the learning rate {facts.learning_rate:g}, but the optimizer of "
                    "compile() has a schedule of its own: leave the learning rate at "
                    f"{facts.default_learning_rate:g}."
                )
            optimizer.learning_rate = facts.learning_rate
        return {"": OptimizerPlan(trained.as_torch_optimizer(optimizer))}

    def _metrics(self) -> list[Any]:
        return [m for m in self._model.metrics if m is not self._model._loss_tracker]

    def _counted(self) -> list[Any]:
        return [variable for metric in self._metrics() for variable in metric.variables]

    def _outputs_and_loss(self, batch: Any, *, training: bool) -> tuple[Any, torch.Tensor]:
        inputs, targets, weight = _parts(batch)
        outputs = self._model(inputs, training=training)
        loss = self._model._compute_loss(
            x=inputs, y=targets, y_pred=outputs, sample_weight=weight, training=training
        )
        if not self._has_checked:
            self._has_checked = True
            self._check_reductions()
        return outputs, loss

    def _check_reductions(self) -> None:
        """Raise TrainingFailed for a loss that is no mean over the samples."""
        compiled = self._model._compile_loss
        for each in (compiled._flat_losses or ()) if compiled is not None else ():
            reduction = getattr(each.loss, "reduction", None) or "none"
            if reduction not in _MEANS:
                raise TrainingFailed(
                    f"A loss in compile() has the reduction {reduction}: under torch/keras_ddp "
                    "choose sum_over_batch_size, which is the mean over the samples."
                )


def _is_default(loss: Any) -> bool:
    function = getattr(loss, "func", loss)
    return str(getattr(function, "__module__", "")).startswith("engine.")


def _parts(batch: Any) -> tuple[Any, Any, Any]:
    """Return inputs, targets and sample weights of a batch; None for what it does not have."""
    parts = tuple(batch) if isinstance(batch, tuple | list) else (batch,)
    if not 1 <= len(parts) <= 3:
        raise TrainingFailed(
            f"datasets() gave batches of {len(parts)} parts: a compiled model takes inputs, "
            "targets and sample weights."
        )
    inputs, targets, weight = (*parts, None, None)[:3]
    return inputs, targets, weight
