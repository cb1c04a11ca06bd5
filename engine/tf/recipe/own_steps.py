"""A Keras model with its own `train_step` or `test_step`: what they do is what is trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from engine.spec.run_spec import RunSpec
from engine.tf.graph import graph
from engine.tf.recipe.objective import LOSS, Figures, Objective, as_figures
from engine.tf.samples.data import Batch
from engine.tf.samples.local_batch import Share
from engine.training.errors import TrainingFailed
from engine.training.shrinking import SHRINK

_METHODS = {
    "train_step": "compute_loss() of the model, or step(model, batch) in the recipe",
    "test_step": "compute_metrics() of the model, or validate(model, batch) in the recipe",
}
"""Methods of a Keras model that compute a whole batch, and what to define in their place."""

_REFUSED: dict[str, tuple[Callable[[RunSpec], bool], str]] = {
    "accumulation": (lambda spec: spec.accumulation > 1, "1"),
    "clip_norm": (lambda spec: spec.clip_norm > 0, "0 (the optimizer of the model can clip)"),
    "gradient_norm": (lambda spec: spec.gradient_norm, "off"),
    "on_nan": (lambda spec: spec.on_nan == "skip", "stop or continue"),
    "optimizer": (lambda spec: spec.optimizer != "recipe", "recipe"),
    "precision": (lambda spec: spec.precision == "fp16", "fp32 or bf16"),
}
"""Settings that act between the gradients and the update: when they do, and what to choose."""


def overrides(model: keras.Model, name: str) -> bool:
    """Return whether the recipe's model has a method `name` of its own, and not that of Keras."""
    method = getattr(type(model), name, None)
    return not getattr(method, "__module__", "keras.").startswith("keras.")


def own_method(model: keras.Model) -> str:
    """Return `train_step` or `test_step` if a compiled model has its own; otherwise nothing."""
    if not getattr(model, "compiled", False):
        return ""
    return next((name for name in _METHODS if overrides(model, name)), "")


def other_optimizers(model: keras.Model) -> list[keras.optimizers.Optimizer]:
    """Return the optimizers that a model has besides that of `compile`, as a GAN has."""
    values = [value for layer in model._flatten_layers() for value in vars(layer).values()]
    found = [each for value in values for each in _plain(value)]
    optimizers = [each for each in found if isinstance(each, keras.optimizers.Optimizer)]
    return [each for each in optimizers if each is not model.optimizer]


def check(model: keras.Model, spec: RunSpec, default_rate: float) -> None:
    """Raise TrainingFailed for what a model with its own steps cannot honour.

    `default_rate` is the recipe's learning rate.
    """
    name = own_method(model)
    if not name:
        return
    has = f"The model has its own {name}()"
    if spec.strategy != "tf/single":
        raise TrainingFailed(
            f"{has}, which expects whole batches, so its results on parts of a batch cannot be "
            f"put together: choose tf/single, or define {_METHODS[name]}."
        )
    if spec.on_oom == SHRINK:
        raise TrainingFailed(
            f"{has}, which expects whole batches, so their parts cannot become smaller: set on_oom "
            f"to stop, or define {_METHODS[name]}."
        )
    for field, (acts, instead) in _REFUSED.items():
        if acts(spec):
            raise TrainingFailed(
                f"{has}, and {field} acts between gradients and update, which that method does "
                f"by itself: set {field} to {instead}, or define {_METHODS[name]}."
            )
    if not other_optimizers(model):
        return
    if spec.schedule != "constant" or spec.warmup_steps or spec.learning_rate != default_rate:
        raise TrainingFailed(
            f"{has} and several optimizers, so the run cannot set the learning rate: leave it at "
            f"{default_rate:g}, with the schedule constant and no warm-up steps."
        )


class OwnSteps(Objective):
    """The model's `train_step(data)` and `test_step(data)`, whose logs are the figures."""

    uses_outputs = False
    updates_weights = True

    def __init__(
        self, model: keras.Model, *, validate: Callable[..., Any] | None, from_arrays: bool
    ) -> None:
        """`validate` is the recipe's; `from_arrays`: the data are arrays, and no tf.data."""
        super().__init__(None, lambda outputs, targets: {}, validate=validate)
        self._model = model
        self._from_arrays = from_arrays
        self.validates_to_last = validate is None
        self.shows_rate = model.optimizer is not None and not other_optimizers(model)

    def build(self, model: keras.Model, batch: Batch, parts: int) -> None:
        # Tracing makes what Keras makes late: variables of layers, metrics and optimizers.
        strategy = tf.distribute.get_strategy()
        traced = graph(lambda: strategy.run(self.update, args=(batch,))).get_concrete_function()
        self.names = list(traced.structured_outputs)
        if LOSS not in self.names:
            raise TrainingFailed(
                f"train_step() of the model gave {', '.join(self.names) or 'nothing'}: add the "
                'loss of the batch, or its mean in the epoch, as "loss".'
            )
        known = {id(each.value) for each in model.variables}
        if model.optimizer is not None:
            known |= {id(each.value) for each in model.optimizer.variables}
        # The variables have no order, the captures have that of the trace.
        read = {id(each.handle): each for each in traced.variables}
        captured = [read[id(each)] for each in traced.graph.external_captures if id(each) in read]
        found = {id(each): each for each in [*captured, *self._held()]}
        self.more_variables = [each for key, each in found.items() if key not in known]

    def update(self, batch: Batch) -> Figures:
        """Do one step on a batch; return its logs."""
        return _figures(self._model.train_step(self._as_fit(batch)), "train_step() of the model")

    def validation_figures(
        self, model: keras.Model, batch: Batch, share: Share
    ) -> tuple[Figures, tf.Tensor | None]:
        if self._validate is not None:
            return super().validation_figures(model, batch, share)
        found = self._model.test_step(self._as_fit(batch))
        return _figures(found, "test_step() of the model"), None

    def reset_metrics(self) -> None:
        self._model.reset_metrics()

    def _held(self) -> list[tf.Variable]:
        """Return variables that a step may change without reading them, in a stable order."""
        layers = self._model._flatten_layers()
        values = [
            each for layer in layers for value in vars(layer).values() for each in _plain(value)
        ]
        optimizers = [o for o in other_optimizers(self._model) if o.built]
        of_keras = [v for each in [*optimizers, *self._model.metrics] for v in each.variables]
        return [v for v in values if isinstance(v, tf.Variable)] + [v.value for v in of_keras]

    def _as_fit(self, batch: Batch) -> Any:
        """Return a batch as `fit` gives it to a step."""
        if not self._from_arrays:
            return batch
        batch = tf.nest.map_structure(_in_float_type, batch)
        if isinstance(batch, tuple) and len(batch) == 1 and not isinstance(batch[0], tuple | list):
            return batch[0]
        return batch


def _figures(logs: Any, source: str) -> Figures:
    """Return logs as scalars, also those in dictionaries, such as the metrics of `compile`."""
    if not isinstance(logs, Mapping):
        return as_figures(logs, source)
    found: Figures = {}
    for name, value in logs.items():
        nested = isinstance(value, Mapping)
        found |= _figures(value, source) if nested else as_figures({name: value}, source)
    return found


def _plain(value: Any) -> list[Any]:
    """Return the items of a list, tuple or dictionary, or the value itself."""
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple) else [value]


def _in_float_type(tensor: tf.Tensor) -> tf.Tensor:
    return tf.cast(tensor, keras.config.floatx()) if tensor.dtype == tf.float64 else tensor
