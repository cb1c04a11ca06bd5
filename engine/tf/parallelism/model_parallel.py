"""A model whose stages are on different devices: variables, forward and backward pass, update."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import tensorflow as tf
from tensorflow.python.distribute.one_device_strategy import OneDeviceExtended

from engine.tf.parallel import Parallel
from engine.tf.parallelism.stages import RecipeStages, cut_model
from engine.tf.recipe.objective import Objective
from engine.tf.replica import Replica
from engine.tf.samples.data import Batch
from engine.tf.samples.local_batch import Gradients, Share
from engine.training.errors import TrainingFailed


class StagedParallel(Parallel):
    """One replica on all devices; it differs from one device only in model and gradients."""

    def __init__(self, devices: Sequence[str]) -> None:
        """`devices` are TensorFlow's names, one for each stage."""
        super().__init__(PlacementStrategy(devices))
        self._devices = devices

    def make_model(
        self, make: Callable[[], keras.Model], recipe_stages: RecipeStages | None
    ) -> keras.Model:
        return place_model(make, recipe_stages, self._devices)

    def as_written(self, model: keras.Model) -> keras.Model:
        return model.whole

    def check(self, objective: Objective) -> None:
        if not objective.uses_outputs:
            raise TrainingFailed(
                "The loss of this recipe does not follow from the model's outputs alone (it is "
                "step(model, batch), or compute_loss() of the model), and the model is cut into "
                "stages here: choose tf/mirrored or tf/single."
            )
        if objective.is_weighted and not objective.weighs_by_batch:
            raise TrainingFailed(
                "The outputs of the model have masks, so its local batches weigh differently, "
                "which is not known in all stages: choose tf/mirrored, or no accumulation."
            )

    def batch_gradients(self, replica: Replica, batch: Batch, share: Share) -> Gradients:
        inputs, _, _ = keras.utils.unpack_x_y_sample_weight(batch)
        gradients: Gradients = replica.model.gradients(
            inputs,
            lambda outputs: replica.weighted(
                replica.objective.loss_of(batch, outputs, share, None), share
            ),
            penalty_factor=share.factor(replica.objective.weight_of(batch, None)),
            shows_penalties=replica.objective.shows_penalties,
            scale=replica.optimizer.scale_loss,
        )
        return gradients


class PlacementStrategy(tf.distribute.Strategy):  # type: ignore[misc]
    """One replica, whose optimizer updates every variable on that variable's device."""

    def __init__(self, devices: Sequence[str]) -> None:
        super().__init__(_PlacementExtended(self, devices[0]))


class _PlacementExtended(OneDeviceExtended):  # type: ignore[misc]
    def _create_variable(
        self, next_creator: Callable[..., tf.Variable], **options: Any
    ) -> tf.Variable:
        """Create it on the device of `tf.device`, or on the device of `colocate_with`."""
        colocated = options.pop("colocate_with", None)
        if colocated is None:
            return next_creator(**options)
        with tf.device(colocated.device):
            return next_creator(**options)

    def _update(
        self, var: tf.Variable, fn: Callable[..., Any], args: Any, kwargs: Any, group: bool
    ) -> Any:
        """Update on the variable's device; OneDeviceStrategy would copy variables to its own."""
        with tf.device(var.device):
            result = fn(var, *args, **kwargs)
        return tf.group(result) if group else self._local_results(result)


class StagedModel(keras.Model):  # type: ignore[misc]
    """A model that computes each of its stages on that stage's device."""

    def __init__(
        self, model: keras.Model, stages: Sequence[keras.Layer], devices: Sequence[str]
    ) -> None:
        """`stages` consist of the layers of `model`; its variables keep their order."""
        super().__init__()
        self.whole = model
        self._stages = list(stages)
        self._devices = tuple(devices)
        self.built = True  # the whole model is built

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """Return the outputs of the last stage, on its device."""
        for stage, device in zip(self._stages, self._devices, strict=True):
            with tf.device(device):
                inputs = stage(inputs, training=training)
        return inputs

    def gradients(
        self,
        inputs: Any,
        loss: Callable[[Any], tuple[tf.Tensor, tf.Tensor]],
        *,
        penalty_factor: tf.Tensor,
        shows_penalties: bool,
        scale: Callable[[tf.Tensor], tf.Tensor],
    ) -> Gradients:
        """Return the values of `loss(outputs)` in training mode, and the gradients of its loss.

        `loss` returns values and what is minimised. The gradients are those of `scale(loss)` plus
        `scale(regularisation * penalty_factor)`, in the order of `trainable_variables`, each on
        its variable's device. With `shows_penalties` the first value includes them. Each stage has
        its own tape, because a gradient operation does not run on the device of its forward
        operation: a single tape would compute the whole backward pass on one device.
        """
        tapes, stage_inputs, tape_targets = [], [inputs], []
        all_penalties: list[tf.Tensor] = []
        for stage, device in zip(self._stages, self._devices, strict=True):
            with tf.device(device), tf.GradientTape() as tape:
                tape.watch(_floating(stage_inputs[-1]))
                outputs = stage(stage_inputs[-1], training=True)
                stage_inputs.append(outputs)
                unscaled = [
                    tf.reduce_sum(tf.cast(penalty, tf.float32)) * penalty_factor
                    for penalty in stage.losses
                ]
                all_penalties += unscaled
                penalties = [scale(penalty) for penalty in unscaled]
                if stage is self._stages[-1]:
                    values, minimised = loss(outputs)
                    tape_targets.append([scale(minimised), *penalties])
                else:
                    tape_targets.append([*_floating(outputs), *penalties])
            tapes.append(tape)
        gradients: dict[int, tf.Tensor] = {}
        output_gradients: list[tf.Tensor] = []  # of the loss, for the inputs of the next stage
        for number in reversed(range(len(tapes))):
            stage, sources = self._stages[number], _floating(stage_inputs[number])
            variables = stage.trainable_variables
            with tf.device(self._devices[number]):
                ones = [tf.ones_like(t) for t in tape_targets[number][len(output_gradients) :]]
                all_gradients = tapes[number].gradient(
                    tape_targets[number],
                    [*sources, *(variable.value for variable in variables)],
                    output_gradients=[*output_gradients, *ones],
                    unconnected_gradients="zero",
                )
                dense = [tf.convert_to_tensor(gradient) for gradient in all_gradients]
            output_gradients = dense[: len(sources)]
            gradients |= {
                id(variable): gradient
                for variable, gradient in zip(variables, dense[len(sources) :], strict=True)
            }
        if shows_penalties and all_penalties:
            first = tf.one_hot(0, tf.size(values))
            values += first * tf.add_n(all_penalties)
        return values, [gradients[id(variable)] for variable in self.trainable_variables]


def place_model(
    make: Callable[[], keras.Model], recipe_stages: RecipeStages | None, devices: Sequence[str]
) -> StagedModel:
    """Return the built model of `make()`, with the variables of stage k on device k.

    Call `make` twice: first in the host's memory, to learn the sizes; then on the devices. The
    second model creates its variables in the same order, and gets the values of the first one.
    Raises TrainingFailed if the two models differ.
    """
    created: list[tf.Variable] = []

    def create_on_host(create: Callable[..., tf.Variable], **options: Any) -> tf.Variable:
        with tf.device("CPU:0"):
            created.append(create(**options))
        return created[-1]

    with tf.variable_creator_scope(create_on_host):
        host_model = make()
    stages = cut_model(host_model, len(devices), recipe_stages)
    device_of = {
        id(variable.value): device
        for stage, device in zip(stages, devices, strict=True)
        for variable in stage.variables
    }
    device_order = iter([device_of.get(id(variable), devices[0]) for variable in created])

    def create_on_device(create: Callable[..., tf.Variable], **options: Any) -> tf.Variable:
        with tf.device(next(device_order, devices[0])):
            return create(**options)

    with tf.variable_creator_scope(create_on_device):
        device_model = make()
    if [(v.shape, v.dtype) for v in host_model.variables] != [
        (v.shape, v.dtype) for v in device_model.variables
    ]:
        raise TrainingFailed(
            "model() in the recipe gave two different models when it was called twice: let it "
            "depend on its settings only, since tf/model_parallel calls it twice."
        )
    for target, source in zip(device_model.variables, host_model.variables, strict=True):
        target.assign(source)
    return StagedModel(device_model, cut_model(device_model, len(devices), recipe_stages), devices)


def _floating(values: Any) -> list[tf.Tensor]:
    """Return the tensors among `values` that have gradients."""
    return [value for value in tf.nest.flatten(values) if value.dtype.is_floating]
