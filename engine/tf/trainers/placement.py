"""A model whose stages lie on different devices: its variables, both passes and the update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.distribute.one_device_strategy import OneDeviceExtended

from engine.tf.local_batch import Gradients
from engine.tf.trainers.stages import Cut, cut_model
from engine.training.errors import TrainingFailed


class Placement(tf.distribute.Strategy):  # type: ignore[misc]
    """One replica, whose optimizer updates every variable on the device where it lies."""

    def __init__(self, devices: Sequence[str]) -> None:
        super().__init__(_PlacementExtended(self, devices[0]))
        self.devices = tuple(devices)


class _PlacementExtended(OneDeviceExtended):  # type: ignore[misc]
    def _create_variable(
        self, next_creator: Callable[..., tf.Variable], **options: Any
    ) -> tf.Variable:
        """Where `tf.device` says, or beside another variable."""
        beside = options.pop("colocate_with", None)
        if beside is None:
            return next_creator(**options)
        with tf.device(beside.device):
            return next_creator(**options)

    def _update(
        self, var: tf.Variable, fn: Callable[..., Any], args: Any, kwargs: Any, group: bool
    ) -> Any:
        """Called by optimizers; OneDeviceStrategy would fetch every variable to its one device."""
        with tf.device(var.device):
            result = fn(var, *args, **kwargs)
        return tf.group(result) if group else self._local_results(result)


class StagedModel(keras.Model):  # type: ignore[misc]
    """A model that computes each of its stages on that stage's device."""

    def __init__(
        self, model: keras.Model, stages: Sequence[keras.Layer], devices: Sequence[str]
    ) -> None:
        """`stages` are made of the layers of `model`, whose variables keep their order."""
        super().__init__()
        self._whole = model
        self._stages = list(stages)
        self._devices = tuple(devices)
        self.built = True  # the whole is

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """The outputs of the last stage, on its device."""
        for stage, device in zip(self._stages, self._devices, strict=True):
            with tf.device(device):
                inputs = stage(inputs, training=training)
        return inputs

    def gradients(
        self,
        inputs: Any,
        loss: Callable[[Any], tf.Tensor],
        *,
        penalty_weight: float,
        scale: Callable[[tf.Tensor], tf.Tensor],
    ) -> Gradients:
        """`loss(outputs)` in training, and the gradients of it and of all regularisation.

        Regularisation counts `penalty_weight` times; the gradients are those of what `scale` makes
        of both. They are in the order of `trainable_variables`. Stage by stage, since operations
        of a gradient do not inherit the device of what they differentiate: one tape over
        everything would compute the whole way back on a single device.
        """
        tapes, given, ends = [], [inputs], []
        for stage, device in zip(self._stages, self._devices, strict=True):
            with tf.device(device), tf.GradientTape() as tape:
                tape.watch(_floating(given[-1]))
                outputs = stage(given[-1], training=True)
                given.append(outputs)
                penalties = [
                    scale(tf.cast(penalty, tf.float32) * penalty_weight) for penalty in stage.losses
                ]
                if stage is self._stages[-1]:
                    found = loss(outputs)
                    ends.append([scale(found), *penalties])
                else:
                    ends.append([*_floating(outputs), *penalties])
            tapes.append(tape)
        gradients: dict[int, tf.Tensor] = {}
        slopes: list[tf.Tensor] = []  # of the loss, by what the stage after this one was given
        for number in reversed(range(len(tapes))):
            stage, sources = self._stages[number], _floating(given[number])
            variables = stage.trainable_variables
            with tf.device(self._devices[number]):
                ones = [tf.ones_like(end) for end in ends[number][len(slopes) :]]
                slopes_here = tapes[number].gradient(
                    ends[number],
                    [*sources, *(variable.value for variable in variables)],
                    output_gradients=[*slopes, *ones],
                    unconnected_gradients="zero",
                )
                dense = [tf.convert_to_tensor(slope) for slope in slopes_here]
            slopes = dense[: len(sources)]
            gradients |= {
                id(variable): slope
                for variable, slope in zip(variables, dense[len(sources) :], strict=True)
            }
        return found, [gradients[id(variable)] for variable in self.trainable_variables]


def place(make: Callable[[], keras.Model], cut: Cut | None, devices: Sequence[str]) -> StagedModel:
    """The model that `make` makes, built, with the variables of stage k on device k.

    Made twice: in the host's memory first, which tells the sizes; then on the devices, variable by
    variable in the order in which they came, with the values of the first. Raises TrainingFailed.
    """
    came: list[tf.Variable] = []

    def on_host(make_variable: Callable[..., tf.Variable], **options: Any) -> tf.Variable:
        with tf.device("CPU:0"):
            came.append(make_variable(**options))
        return came[-1]

    with tf.variable_creator_scope(on_host):
        first = make()
    lies_on = {
        id(variable.value): device
        for stage, device in zip(cut_model(first, len(devices), cut), devices, strict=True)
        for variable in stage.variables
    }
    order = iter([lies_on.get(id(variable), devices[0]) for variable in came])

    def on_device(make_variable: Callable[..., tf.Variable], **options: Any) -> tf.Variable:
        with tf.device(next(order, devices[0])):
            return make_variable(**options)

    with tf.variable_creator_scope(on_device):
        second = make()
    if [(v.shape, v.dtype) for v in first.variables] != [
        (v.shape, v.dtype) for v in second.variables
    ]:
        raise TrainingFailed(
            "model() in the recipe gave two different models when it was called twice: let it "
            "depend on its settings only, since tf/model_parallel calls it twice."
        )
    for ours, theirs in zip(second.variables, first.variables, strict=True):
        ours.assign(theirs)
    return StagedModel(second, cut_model(second, len(devices), cut), devices)


def _floating(values: Any) -> list[tf.Tensor]:
    """The tensors among `values` that have gradients."""
    return [value for value in tf.nest.flatten(values) if value.dtype.is_floating]
