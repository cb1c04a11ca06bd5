"""What a Keras recipe offers, in one form: its data, model, objective and optimizer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import keras

from engine.messages.events import Notice
from engine.spec.run_spec import RunSpec
from engine.tf.graph import with_autograph
from engine.tf.optimizer_step import chosen_optimizer
from engine.tf.recipe import compiled, defaults, own_steps
from engine.tf.recipe.objective import Objective, StepObjective
from engine.tf.samples.batch_stream import DataSet, as_stream
from engine.tf.samples.data import ArraySamples, Batch, DataSets, data_sets, is_stream
from engine.training.errors import TrainingFailed
from engine.training.recipe_functions import check_call
from engine.worker.session import WorkerSession

_OF_PYTORCH = {
    "optimizers": "give one optimizer. Several, as for a GAN, need a model with its own "
    "train_step(), a recipe in PyTorch, or your own script with traindeck run.",
    "ema": "let optimizer() give one with use_ema=True and an ema_overwrite_frequency.",
}
"""Functions that a Keras recipe cannot have, and what to do instead."""


class TfRecipe:
    """The functions of a recipe, with its settings bound; the recipe is imported here."""

    def __init__(self, session: WorkerSession) -> None:
        self._session = session
        self._module = session.load_recipe()
        self.stages = self.function("stages")
        self._given: Any = None
        self.check()

    def check(self) -> None:
        """Raise TrainingFailed for functions that only PyTorch recipes can have."""
        for name, instead in _OF_PYTORCH.items():
            if getattr(self._module, name, None) is not None:
                raise TrainingFailed(
                    f"The recipe has {name}(), which Keras recipes cannot have: {instead}"
                )
        step = getattr(self._module, "step", None)
        if step is not None and "carried" in inspect.signature(step).parameters:
            raise TrainingFailed(
                "step() of the recipe takes carried, which Keras recipes cannot: use a layer with "
                "stateful=True under tf/single."
            )

    def function(self, name: str, default: Callable[..., Any] | None = None) -> Any:
        """Return a function of the recipe with its settings bound, `default` or None.

        Raises TrainingFailed if it cannot be called as the engine does it.
        """
        function = getattr(self._module, name, default)
        check_call(name, function)
        return function and partial(function, **self._session.settings_for(function))

    def in_graph(self, name: str, default: Callable[..., Any] | None = None) -> Any:
        """Do the same for a function in a graph; the recipe's `if` may depend on a tensor."""
        function = self.function(name)
        return with_autograph(function) if function else default

    def data(self) -> DataSets:
        """Return what `datasets()` gave. Raises ValueError."""
        self._given = self.function("datasets")()
        return data_sets(self._given)

    def make_model(self, batch: Batch) -> keras.Model:
        """Return the built model; `batch` has some samples."""
        make = self.function("model")
        parameter = inspect.signature(make).parameters.get("data")
        takes_data = parameter is not None and parameter.default in (parameter.empty, None)
        model = make(data=self._given) if takes_data else make()
        # Without call(), only its own train_step() knows what to build.
        has_call = type(model).call is not keras.Model.call
        if not model.built and (has_call or not own_steps.own_method(model)):
            inputs, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
            model(inputs)
        return model

    def callbacks(self) -> list[Any]:
        """Return the Keras callbacks of the recipe."""
        make = self.function("callbacks")
        return list(make()) if make else []

    @property
    def as_fit(self) -> bool:
        """Whether the arrays are prepared as in Keras' `fit`."""
        return self.function("step") is not None

    def objective(self, model: keras.Model, *, from_arrays: bool) -> Objective:
        """Return what is minimised. Raises TrainingFailed when the recipe says it twice.

        `from_arrays`: the training data are arrays.
        """
        found = self._objective(model, from_arrays=from_arrays)
        found.sample_loss = self.function("sample_loss")
        return found

    def _objective(self, model: keras.Model, *, from_arrays: bool) -> Objective:
        own_steps.check(model, self._session.spec, self._session.recipe.learning_rate)
        step, loss = self.in_graph("step"), self.in_graph("loss")
        weight, validate = self.in_graph("weight"), self.in_graph("validate")
        metrics = self.in_graph("metrics", defaults.metrics)
        if step:
            self._refuse_both("step(model, batch)", loss and "loss(outputs, targets)")
            if name := own_steps.own_method(model):
                self._refuse_both("step(model, batch)", f"a model with its own {name}()")
            if compiled.is_compiled(model) and compiled.has_loss(model):
                self._refuse_both("step(model, batch)", "a model that is compiled with a loss")
            return StepObjective(step, weight=weight, validate=validate)
        if name := own_steps.own_method(model):
            own_step = f"a model with its own {name}()"
            self._refuse_both("loss(outputs, targets)", loss and own_step)
            self._refuse_both("weight(batch)", weight and own_step)
            self._refuse_both("metrics(outputs, targets)", self.function("metrics") and own_step)
            if own_steps.overrides(model, "test_step"):
                self._refuse_both("validate(model, batch)", validate and own_step)
            return own_steps.OwnSteps(model, validate=validate, from_arrays=from_arrays)
        if not compiled.is_compiled(model):
            return Objective(loss or defaults.loss, metrics, weight=weight, validate=validate)
        if loss and compiled.has_loss(model):
            self._refuse_both("loss(outputs, targets)", "a model that is compiled with a loss")
        return compiled.CompiledObjective(
            model, metrics, loss=loss, weight=weight, validate=validate
        )

    def optimizer(self, model: keras.Model) -> keras.optimizers.Optimizer:
        """Return the optimizer. Raises TrainingFailed when the recipe says it twice."""
        spec = self._session.spec
        own = self.function("optimizer")
        of_model = getattr(model, "optimizer", None) if compiled.is_compiled(model) else None
        if own and of_model is not None:
            self._refuse_both("optimizer()", "a model that is compiled with an optimizer")
        if name := own_steps.own_method(model):
            self._refuse_both("optimizer()", own and f"a model with its own {name}()")
        chosen = chosen_optimizer(spec)
        if chosen is not None:
            if of_model is not None:
                self._say(
                    f"The optimizer {spec.optimizer} of the run replaces that of compile(), which "
                    f"is {type(of_model).__name__}."
                )
            return chosen
        if of_model is None:
            make = own or defaults.optimizer
            return make(model.trainable_variables, spec.learning_rate)
        if not own_steps.other_optimizers(model):
            self._set_rate(of_model)
        return of_model

    def _set_rate(self, optimizer: keras.optimizers.Optimizer) -> None:
        """Give the optimizer of a compiled model the run's learning rate, if the user chose one."""
        chosen, default = self._session.spec.learning_rate, self._session.recipe.learning_rate
        rate = optimizer.learning_rate
        is_number = isinstance(rate, keras.Variable)
        if chosen != default:
            if not is_number:
                raise TrainingFailed(
                    f"The run has the learning rate {chosen:g}, but the optimizer of compile() has "
                    f"a schedule of its own: leave the learning rate at {default:g}."
                )
            optimizer.learning_rate = chosen
            self._say(f"The learning rate {chosen:g} of the run replaces that of compile().")
        elif is_number and abs(float(rate.numpy()) - chosen) > 1e-6 * chosen:
            self._say(
                f"The learning rate is {float(rate.numpy()):g}, that of compile(); a learning rate "
                f"of the run other than {default:g} would replace it."
            )

    def _say(self, text: str) -> None:
        if self._session.rank == 0:
            self._session.emit(Notice(text, self._session.rank))

    def _refuse_both(self, one: str, other: str | None) -> None:
        if other:
            raise TrainingFailed(f"The recipe has {one} and {other}: leave one of them out.")


def check_model(model: keras.Model, parts: int, *, in_order: bool) -> None:
    """Raise TrainingFailed for what cannot be honoured here.

    `parts` is the number of local batches of a global batch; `in_order`: the batches come in the
    order of the recipe, and not shuffled.
    """
    for layer in model._flatten_layers():
        if getattr(layer, "stateful", False) and (parts > 1 or not in_order):
            raise TrainingFailed(
                f"The layer {layer.name} carries its state from batch to batch (stateful=True), so "
                "the batches need their order and one device: give a tf.data.Dataset of batches, "
                "choose tf/single, no accumulation, and on_oom stop."
            )
    if not compiled.is_compiled(model):
        return
    optimizer = model.optimizer
    if getattr(optimizer, "use_ema", False) and not optimizer.ema_overwrite_frequency:
        raise TrainingFailed(
            "The optimizer of compile() has use_ema, and fit writes the averages over the weights "
            "at its end, after which a run could not go on: give it an ema_overwrite_frequency."
        )
    if model.run_eagerly:
        raise TrainingFailed(
            "The model is compiled with run_eagerly=True, and the steps of a run are one graph: "
            "leave it out (to look into a step, use tf.print, or traindeck run with your script)."
        )


def read_data(dataset: Any, recipe: TfRecipe, spec: RunSpec, *, is_training: bool) -> DataSet:
    """Return one data set of a recipe. Raises ValueError if it is none."""
    if is_stream(dataset):
        return as_stream(dataset, spec.batch_size, seed=spec.seed if is_training else None)
    return ArraySamples(dataset, as_fit=recipe.as_fit)
